//! The rows of one process, with a row of each neighbour above and below them.

use crate::Plan;

pub struct Band {
    columns: usize,
    rows: usize,
    now: Vec<f64>,
    next: Vec<f64>,
    has_upper: bool,
    has_lower: bool,
}

impl Band {
    /// The plate is cold but for its upper border.
    pub fn new(plan: &Plan, rank: usize) -> Band {
        let rows = rows(plan, rank);
        let mut now = vec![0.0; (rows + 2) * plan.size];
        if rank == 0 {
            now[..plan.size].fill(100.0);
        }
        Band {
            columns: plan.size,
            rows,
            next: now.clone(),
            now,
            has_upper: rank > 0,
            has_lower: rank + 1 < plan.ranks,
        }
    }

    pub fn has_upper(&self) -> bool {
        self.has_upper
    }

    pub fn has_lower(&self) -> bool {
        self.has_lower
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.now[row * self.columns..(row + 1) * self.columns]
    }

    pub fn first(&self) -> Vec<u8> {
        bytes(self.row(1))
    }

    pub fn last(&self) -> Vec<u8> {
        bytes(self.row(self.rows))
    }

    pub fn set_upper(&mut self, row: &[u8]) {
        fill(&mut self.now[..self.columns], row);
    }

    pub fn set_lower(&mut self, row: &[u8]) {
        let at = (self.rows + 1) * self.columns;
        fill(&mut self.now[at..], row);
    }

    /// Each place becomes the mean of its neighbours; those at the sides stay cold.
    pub fn step(&mut self) {
        let width = self.columns;
        for row in 1..=self.rows {
            let at = row * width;
            let (above, below) = (
                &self.now[at - width..at],
                &self.now[at + width..at + 2 * width],
            );
            let here = &self.now[at..at + width];
            let next = &mut self.next[at..at + width];
            for column in 1..width - 1 {
                let sides = here[column - 1] + here[column + 1];
                next[column] = (above[column] + below[column] + sides) / 4.0;
            }
        }
        if !self.has_upper {
            self.next[..width].copy_from_slice(&self.now[..width]);
        }
        std::mem::swap(&mut self.now, &mut self.next);
    }

    pub fn heat(&self) -> f64 {
        (1..=self.rows).flat_map(|row| self.row(row)).sum()
    }
}

/// As equal as can be.
fn rows(plan: &Plan, rank: usize) -> usize {
    plan.size / plan.ranks + usize::from(rank < plan.size % plan.ranks)
}

fn bytes(row: &[f64]) -> Vec<u8> {
    row.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn fill(row: &mut [f64], bytes: &[u8]) {
    for (value, bytes) in row.iter_mut().zip(bytes.as_chunks().0) {
        *value = f64::from_le_bytes(*bytes);
    }
}
