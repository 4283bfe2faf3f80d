//! A small assembler for the BPF instructions that our programs are made of
//! (Documentation/bpf/standardization/instruction-set.rst). Jumps go forward only.

use std::vec::Vec;

/// struct bpf_insn (linux/bpf.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    code: u8,
    /// The destination in the low half, the source in the high one.
    registers: u8,
    offset: i16,
    immediate: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R4 = 4,
    R5 = 5,
    R6 = 6,
    R7 = 7,
    R8 = 8,
    R9 = 9,
    /// Behind the end of the stack.
    R10 = 10,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Word = 0x00,
    Half = 0x08,
    Byte = 0x10,
}

const LOAD: u8 = 0x61;
const STORE: u8 = 0x63;
const LOAD_MAP: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD_NUMBER: u8 = 0x07;
const IF_GREATER: u8 = 0x2d;
const IF_NULL: u8 = 0x15;
/// These compare 32 bits: a number is not extended by its sign.
const IF_EQUAL: u8 = 0x16;
const IF_NOT_EQUAL: u8 = 0x56;
const IF_ANY: u8 = 0x46;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The number of a load is the descriptor of a map.
const A_MAP: u8 = 1;

/// A place that is still to come.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<Instruction>,
    /// Where each label stands.
    labels: Vec<Option<usize>>,
    /// Jumps, and where they go.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label stands here.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    fn add(&mut self, code: u8, to: Register, from: u8, offset: i16, immediate: i32) {
        self.code.push(Instruction {
            code,
            registers: to as u8 | from << 4,
            offset,
            immediate,
        });
    }

    /// `to = *(from + offset)`
    pub fn load(&mut self, size: Size, to: Register, from: Register, offset: u32) {
        self.add(LOAD | size as u8, to, from as u8, offset as i16, 0);
    }

    /// `*(to + offset) = from`, four bytes of it.
    pub fn store(&mut self, to: Register, offset: u32, from: Register) {
        self.add(STORE, to, from as u8, offset as i16, 0);
    }

    pub fn load_map(&mut self, to: Register, map: i32) {
        self.add(LOAD_MAP, to, A_MAP, 0, map);
        // Its upper half.
        self.add(0, Register::R0, 0, 0, 0);
    }

    pub fn copy(&mut self, to: Register, from: Register) {
        self.add(MOVE, to, from as u8, 0, 0);
    }

    pub fn set(&mut self, to: Register, number: i32) {
        self.add(MOVE_NUMBER, to, 0, 0, number);
    }

    pub fn increase(&mut self, register: Register, number: i32) {
        self.add(ADD_NUMBER, register, 0, 0, number);
    }

    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.add(JUMP, Register::R0, 0, 0, 0);
    }

    pub fn if_greater(&mut self, left: Register, right: Register, then: Label) {
        self.jumps.push((self.code.len(), then));
        self.add(IF_GREATER, left, right as u8, 0, 0);
    }

    pub fn if_equal(&mut self, register: Register, number: u32, then: Label) {
        self.jump_if(IF_EQUAL, register, number, then);
    }

    pub fn if_not_equal(&mut self, register: Register, number: u32, then: Label) {
        self.jump_if(IF_NOT_EQUAL, register, number, then);
    }

    /// If any of these bits is set.
    pub fn if_any(&mut self, register: Register, bits: u32, then: Label) {
        self.jump_if(IF_ANY, register, bits, then);
    }

    /// Asked of all 64 bits, as the verifier wants it of a pointer.
    pub fn if_null(&mut self, register: Register, then: Label) {
        self.jump_if(IF_NULL, register, 0, then);
    }

    fn jump_if(&mut self, code: u8, register: Register, number: u32, then: Label) {
        self.jumps.push((self.code.len(), then));
        self.add(code, register, 0, 0, number as i32);
    }

    /// A function of the kernel.
    pub fn call(&mut self, function: i32) {
        self.add(CALL, Register::R0, 0, 0, function);
    }

    pub fn exit(&mut self) {
        self.add(EXIT, Register::R0, 0, 0, 0);
    }

    /// The program. Every label has been placed, behind the jumps to it.
    pub fn finish(mut self) -> Vec<Instruction> {
        for (from, Label(label)) in self.jumps {
            let to = self.labels[label].unwrap_or(from + 1);
            self.code[from].offset = (to - from - 1) as i16;
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_go_where_they_should() {
        let mut assembler = Assembler::default();
        let end = assembler.label();
        assembler.if_equal(Register::R1, 5, end);
        assembler.load_map(Register::R1, 7);
        assembler.if_greater(Register::R2, Register::R3, end);
        assembler.set(Register::R0, -1);
        assembler.place(end);
        assembler.exit();
        let code = assembler.finish();
        assert_eq!(code.len(), 6);
        assert_eq!((code[0].offset, code[3].offset), (4, 1));
        assert_eq!(code[3].registers, 0x32);
        assert_eq!((code[1].registers, code[1].immediate), (0x11, 7));
        assert_eq!(code[4].immediate, -1);
    }
}
