// SPDX-License-Identifier: GPL-2.0

//! A queue of ports, chained through the ports themselves. A port is in one queue at most.

use super::topology::{
    Port,
    NONE, //
};

/// A queue of ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    pub(super) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
    };

    pub(super) const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Adds a port that is in no queue.
    pub(super) fn push(&mut self, ports: &mut [Port], port: u32) {
        let Some(entry) = ports.get_mut(port as usize) else {
            return;
        };
        entry.next = NONE;
        match ports.get_mut(self.tail as usize) {
            Some(last) if self.head != NONE => last.next = port,
            _ => self.head = port,
        }
        self.tail = port;
    }

    /// Takes the first port out.
    pub(super) fn pop(&mut self, ports: &[Port]) -> Option<u32> {
        let first = self.head;
        self.head = ports.get(first as usize)?.next;
        Some(first)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_sm_fifo))]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out() {
        let mut ports = [Port::new(); 3];
        let mut queue = Fifo::EMPTY;
        for round in 0..2 {
            assert!(queue.is_empty());
            assert_eq!(queue.pop(&ports), None);
            for port in [2, round, 1 - round] {
                queue.push(&mut ports, port);
            }
            assert_eq!(queue.pop(&ports), Some(2));
            queue.push(&mut ports, 2);
            assert_eq!(queue.pop(&ports), Some(round));
            assert_eq!(queue.pop(&ports), Some(1 - round));
            assert_eq!(queue.pop(&ports), Some(2));
        }
    }
}
