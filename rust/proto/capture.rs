// SPDX-License-Identifier: GPL-2.0

//! Captured packets, on their way to a reader.
//!
//! The reader gets a stream of records, each of them a [`Head`] of [`HEAD_LEN`] bytes and a packet from the LRH
//! through the ICRC. What finds no room is lost, and the next record tells how much that was. All numbers are
//! little-endian:
//!
//! ```text
//! 0        8         12       16        17         24
//! | time   | length  | lost   | way     | reserved | packet ...
//! ```

use crate::fault::Direction;
use crate::time::Instant;
use core::ops::DerefMut;

/// Size in bytes of what stands before each packet.
pub const HEAD_LEN: usize = 24;

/// What stands before a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// When it passed the port.
    pub time: Instant,
    /// Which way.
    pub direction: Direction,
}

/// A bounded queue of records. `S` lends the memory.
#[derive(Debug, Default)]
pub struct Ring<S> {
    bytes: S,
    /// Where the oldest record begins.
    head: usize,
    /// Bytes in use.
    used: usize,
    /// Packets that found no room since the newest record.
    missed: u32,
    captured: u64,
    lost: u64,
}

impl<S: DerefMut<Target = [u8]>> Ring<S> {
    /// An empty queue.
    pub const fn new(bytes: S) -> Self {
        Self {
            bytes,
            head: 0,
            used: 0,
            missed: 0,
            captured: 0,
            lost: 0,
        }
    }

    /// The bytes of memory.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes that wait.
    pub fn used(&self) -> usize {
        self.used
    }

    /// The packets that were captured, and those that were lost.
    pub fn counts(&self) -> (u64, u64) {
        (self.captured, self.lost)
    }

    /// A packet could not be captured.
    pub fn miss(&mut self) {
        self.missed = self.missed.saturating_add(1);
        self.lost = self.lost.saturating_add(1);
    }

    /// Appends a record, or counts the packet as lost.
    pub fn push(&mut self, head: &Head, packet: &[u8]) {
        let size = HEAD_LEN.saturating_add(packet.len());
        let Ok(length) = u32::try_from(packet.len()) else {
            return self.miss();
        };
        if size > self.bytes.len().saturating_sub(self.used) {
            return self.miss();
        }
        let way = match head.direction {
            Direction::Out => 0,
            Direction::In => 1,
        };
        self.put(&head.time.nanos().to_le_bytes());
        self.put(&length.to_le_bytes());
        self.put(&self.missed.to_le_bytes());
        self.put(&[way, 0, 0, 0, 0, 0, 0, 0]);
        self.put(packet);
        self.missed = 0;
        self.captured = self.captured.saturating_add(1);
    }

    /// Moves whole records, as many as there is room for, to the front of `out`. Returns how many bytes those
    /// are, or `None` if there is no room for the first one.
    pub fn take(&mut self, out: &mut [u8]) -> Option<usize> {
        let mut done = 0usize;
        while self.used > 0 {
            let mut length = [0; 4];
            self.peek(8, &mut length);
            let size = HEAD_LEN.saturating_add(u32::from_le_bytes(length) as usize);
            let rest = out.get_mut(done..).unwrap_or_default();
            let Some(room) = rest.get_mut(..size) else {
                break;
            };
            self.peek(0, room);
            self.head = self.place(size);
            self.used = self.used.saturating_sub(size);
            done = done.saturating_add(size);
        }
        (done > 0 || self.used == 0).then_some(done)
    }

    /// The place of the byte `offset` after the head.
    fn place(&self, offset: usize) -> usize {
        let at = self.head.saturating_add(offset);
        if at >= self.bytes.len() {
            at.wrapping_sub(self.bytes.len())
        } else {
            at
        }
    }

    /// Appends bytes, for which there is room.
    fn put(&mut self, bytes: &[u8]) {
        let at = self.place(self.used);
        let (low, high) = self.bytes.split_at_mut_checked(at).unwrap_or_default();
        copy(high, bytes);
        copy(low, bytes.get(high.len()..).unwrap_or_default());
        self.used = self.used.saturating_add(bytes.len());
    }

    /// Copies bytes from `offset` after the head on.
    fn peek(&self, offset: usize, out: &mut [u8]) {
        let at = self.place(offset);
        let (low, high) = self.bytes.split_at_checked(at).unwrap_or_default();
        copy(out, high);
        copy(out.get_mut(high.len()..).unwrap_or_default(), low);
    }
}

/// Copies as many bytes as both have.
fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_capture))]
mod tests {
    use super::*;

    const FIRST: Head = Head {
        time: Instant::from_nanos(0x0102_0304_0506_0708),
        direction: Direction::In,
    };

    #[test]
    fn known_bytes() {
        let mut memory = [0; 64];
        let mut ring = Ring::new(&mut memory[..]);
        ring.push(&FIRST, &[0xaa, 0xbb]);
        let mut out = [0; 64];
        assert_eq!(ring.take(&mut out), Some(26));
        assert_eq!(
            out[..26],
            [8, 7, 6, 5, 4, 3, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xaa, 0xbb]
        );
        assert_eq!(ring.take(&mut out), Some(0));
        assert_eq!(ring.used(), 0);
    }

    #[test]
    fn goes_round_and_round() {
        let mut memory = [0; 100];
        let mut ring = Ring::new(&mut memory[..]);
        let mut out = [0; 100];
        for round in 0..200u8 {
            let packet = [round; 30];
            let packet = &packet[..usize::from(round) % 30];
            ring.push(&FIRST, packet);
            ring.push(&FIRST, &[round]);
            let size = 2 * HEAD_LEN + packet.len() + 1;
            assert_eq!(ring.take(&mut out), Some(size));
            assert_eq!(out[HEAD_LEN..][..packet.len()], *packet);
            assert_eq!(out[size - 1], round);
        }
        assert_eq!(ring.counts(), (400, 0));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut memory = [0; 60];
        let mut ring = Ring::new(&mut memory[..]);
        let mut out = [0; 60];
        ring.push(&FIRST, &[1; 10]);
        ring.push(&FIRST, &[2; 10]);
        ring.push(&FIRST, &[3; 3]);
        ring.miss();
        assert_eq!(ring.counts(), (1, 3));
        assert_eq!(ring.take(&mut out), Some(34));
        assert_eq!(out[12], 0);
        ring.push(&FIRST, &[4; 1]);
        assert_eq!(ring.take(&mut out), Some(25));
        assert_eq!(out[12], 3);
        assert_eq!(out[24], 4);
    }

    #[test]
    fn a_reader_gets_whole_records() {
        let mut memory = [0; 100];
        let mut ring = Ring::new(&mut memory[..]);
        ring.push(&FIRST, &[1; 10]);
        ring.push(&FIRST, &[2; 10]);
        let mut out = [0; 60];
        assert_eq!(ring.take(&mut out[..33]), None);
        assert_eq!(ring.take(&mut out[..60]), Some(34));
        assert_eq!(ring.take(&mut out[..34]), Some(34));
        assert_eq!(out[24], 2);
    }

    #[test]
    fn without_memory_everything_is_lost() {
        let mut memory = [0; 0];
        let mut ring = Ring::new(&mut memory[..]);
        ring.push(&FIRST, &[]);
        assert_eq!(ring.counts(), (0, 1));
        assert_eq!(ring.take(&mut []), Some(0));
    }
}
