//! When a wait that rings could answer asks the kernel, too: about members that the kernel watches. That takes a system call,
//! several times as long as a look at the rings. So it is asked at once when somebody says that he has spoken by it, at
//! every wait while it has something to tell, and at every eighth when it is quiet.

/// Of waits that rings alone could answer, one in so many asks the kernel at the least.
const RAREST: u32 = 8;

/// What a wait asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Rings,
    /// What the kernel tells came before the member with this ticket.
    KernelBefore(u64),
    KernelToo,
}

pub struct Turns {
    /// Waits since the kernel was last asked.
    waits: u32,
    every: u32,
    /// The ticket of the first that came after what the kernel has.
    kernel_before: Option<u64>,
    /// The last answer that could not hold both was the kernel's.
    was_kernels: bool,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns {
            waits: 0,
            every: 1,
            kernel_before: None,
            was_kernels: false,
        }
    }
}

impl Turns {
    /// The kernel has something that came before the member with this ticket.
    pub fn kernel_before(&mut self, ticket: u64) {
        self.kernel_before.get_or_insert(ticket);
    }

    /// The turn of the next wait.
    pub fn next(&mut self) -> Turn {
        self.waits += 1;
        if let Some(ticket) = self.kernel_before.take() {
            Turn::KernelBefore(ticket)
        } else if self.waits >= self.every {
            Turn::KernelToo
        } else {
            Turn::Rings
        }
    }

    /// Where one answer cannot hold both: is the next the kernel's? Never twice in a row, for the kernel may have something to tell
    /// at every wait.
    pub fn next_apart(&mut self) -> bool {
        let is_kernels = self.next() != Turn::Rings && !self.was_kernels;
        self.was_kernels = is_kernels;
        is_kernels
    }

    /// Will the next wait ask the kernel?
    pub fn is_kernels(&self) -> bool {
        self.kernel_before.is_some() || self.waits + 1 >= self.every
    }

    /// The kernel was asked.
    pub fn asked(&mut self, told: bool) {
        self.waits = 0;
        self.kernel_before = None;
        self.every = match told {
            true => 1,
            false => (2 * self.every).min(RAREST),
        };
    }

    /// It was its turn, but rings left it no room: the next time it is before them all.
    pub fn no_room(&mut self) {
        self.kernel_before = Some(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until_asked(turns: &mut Turns) -> u32 {
        (1..)
            .find(|_| turns.next() != Turn::Rings)
            .unwrap_or_default()
    }

    #[test]
    fn a_quiet_kernel_is_asked_more_and_more_rarely() {
        let mut turns = Turns::default();
        let waits: Vec<u32> = (0..6)
            .map(|_| {
                let waits = until_asked(&mut turns);
                turns.asked(false);
                waits
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 8, 8]);
        turns.asked(true);
        assert_eq!(until_asked(&mut turns), 1);
    }

    #[test]
    fn a_busy_kernel_leaves_every_other_answer_to_rings() {
        let mut turns = Turns::default();
        let turns = (0..6).map(|_| {
            let is_kernels = turns.next_apart();
            turns.asked(true);
            is_kernels
        });
        let turns: Vec<bool> = turns.collect();
        assert_eq!(turns, [true, false, true, false, true, false]);
    }

    #[test]
    fn who_came_first_is_asked_first_once() {
        let mut turns = Turns::default();
        (0..4).for_each(|_| turns.asked(false));
        turns.kernel_before(5);
        turns.kernel_before(7);
        assert_eq!(turns.next(), Turn::KernelBefore(5));
        turns.asked(false);
        assert_eq!(turns.next(), Turn::Rings);
        turns.no_room();
        assert_eq!(turns.next(), Turn::KernelBefore(0));
    }
}
