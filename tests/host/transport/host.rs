// SPDX-License-Identifier: GPL-2.0

//! The surroundings of one queue pair on a simulated host: memory, queues, and a record of what happened.

use proto::transport::{
    Access,
    AtomicOp,
    Env,
    InvalidateError,
    PlaceError,
    Placement,
    QpEvent,
    RecvSlot,
    RecvWqe,
    RemoteError,
    RemoteFault,
    SendSlot,
    Wc,
    WcStatus, //
};
use std::collections::VecDeque;
use wire::grh::Grh;
use wire::{
    Key,
    PortNum, //
};

/// Where the one memory region of a host begins.
pub(crate) const MEMORY_BASE: u64 = 0x7f00_0000_1000;

/// Its key.
pub(crate) const MEMORY_KEY: Key = Key::new(0x1234_5601);

/// A host's share of the world around its queue pair.
#[derive(Default)]
pub(crate) struct Host {
    /// What peers may reach, from [`MEMORY_BASE`] on.
    pub(crate) memory: Vec<u8>,
    /// Buffers of send work requests by slot.
    pub(crate) send_buffers: Vec<Vec<u8>>,
    /// Receive work requests not taken yet.
    pub(crate) recv_queue: VecDeque<RecvWqe>,
    /// Buffers of receive work requests by slot.
    pub(crate) recv_buffers: Vec<Vec<u8>>,
    /// The port that the packet being received came by.
    pub(crate) in_port: PortNum,
    /// Payload of the packet being received.
    pub(crate) packet: Vec<u8>,
    /// Send completions.
    pub(crate) sent: Vec<Wc>,
    /// Receive completions and the slots that they are for.
    pub(crate) received: Vec<(RecvSlot, Wc)>,
    /// Events.
    pub(crate) events: Vec<QpEvent>,
    /// How often the peer was heard on a path for the first time.
    pub(crate) heard: u32,
    /// Buffers of the send work requests that were retired, in order.
    pub(crate) retired: Vec<Vec<u8>>,
    /// Keys that peers invalidated.
    pub(crate) invalidated: Vec<Key>,
    /// How often the next key to invalidate is in use, and each one after it.
    pub(crate) busy: u32,
    pub(crate) busy_again: u32,
    /// Buffers of the local operations that were executed, in order.
    pub(crate) executed: Vec<Vec<u8>>,
    /// What each FLUSH found in the range that it named, or in all of the memory.
    pub(crate) flushed: Vec<Vec<u8>>,
    /// Whether local buffers refuse access.
    pub(crate) bad_buffers: bool,
    /// A send work request whose buffers alone do.
    pub(crate) bad_slot: Option<SendSlot>,
    /// Whether local operations, and invalidations by the peer, fail.
    pub(crate) bad_operations: bool,
    /// Whether the memory goes once a peer has been allowed to reach it.
    pub(crate) leaves: bool,
    /// Whether the memory that is accessed next is not there.
    pub(crate) absent: bool,
    /// Whether a segment is on its way.
    pub(crate) sending: bool,
}

impl Host {
    pub(crate) fn new(memory: usize, send_slots: usize) -> Self {
        Self {
            memory: vec![0; memory],
            send_buffers: vec![Vec::new(); send_slots],
            ..Self::default()
        }
    }

    /// Posts a receive of `len` bytes, named by its slot.
    pub(crate) fn post_recv(&mut self, len: u32) {
        let slot = self.recv_buffers.len() as u32;
        self.recv_buffers.push(vec![0; len as usize]);
        self.recv_queue.push_back(RecvWqe {
            slot: RecvSlot(slot),
            wr_id: u64::from(slot),
            len,
        });
    }

    /// The bytes at an address, if the key and the range are right.
    pub(crate) fn remote(
        &mut self,
        rkey: Key,
        va: u64,
        len: u32,
    ) -> Result<&mut [u8], RemoteFault> {
        if rkey != MEMORY_KEY {
            return Err(RemoteFault);
        }
        let start = va.checked_sub(MEMORY_BASE).ok_or(RemoteFault)? as usize;
        let end = start.checked_add(len as usize).ok_or(RemoteFault)?;
        self.memory.get_mut(start..end).ok_or(RemoteFault)
    }

    /// As [`Self::remote`], for an access.
    fn reach(&mut self, rkey: Key, va: u64, len: u32) -> Result<&mut [u8], RemoteError> {
        if std::mem::take(&mut self.absent) {
            return Err(RemoteError::Absent);
        }
        Ok(self.remote(rkey, va, len)?)
    }

    /// Executes a local operation.
    pub(crate) fn execute(&mut self, slot: SendSlot) -> WcStatus {
        self.executed
            .push(self.send_buffers[slot.get() as usize].clone());
        if self.bad_slot == Some(slot) || self.bad_operations {
            WcStatus::MwBindErr
        } else {
            WcStatus::Success
        }
    }

    fn local(buffer: &mut [u8], offset: u32, data: &[u8]) {
        buffer[offset as usize..][..data.len()].copy_from_slice(data);
    }

    fn local_status(&mut self) -> Result<(), PlaceError> {
        if std::mem::take(&mut self.absent) {
            Err(PlaceError::Absent)
        } else if self.bad_buffers {
            Err(WcStatus::LocProtErr.into())
        } else {
            Ok(())
        }
    }
}

impl Env for Host {
    fn in_port(&mut self) -> PortNum {
        self.in_port
    }

    fn take_recv(&mut self) -> Option<RecvWqe> {
        self.recv_queue.pop_front()
    }

    fn recv_count(&mut self) -> u32 {
        self.recv_queue.len() as u32
    }

    fn place_recv(&mut self, slot: RecvSlot, offset: u32, len: u32) -> Result<(), PlaceError> {
        self.local_status()?;
        let data = &self.packet[..len as usize];
        Self::local(&mut self.recv_buffers[slot.0 as usize], offset, data);
        Ok(())
    }

    fn place_grh(&mut self, slot: RecvSlot, grh: Option<&Grh>) -> Result<(), PlaceError> {
        self.local_status()?;
        if let Some(grh) = grh {
            let mut bytes = [0; 40];
            grh.emit(&mut bytes).unwrap();
            Self::local(&mut self.recv_buffers[slot.0 as usize], 0, &bytes);
        }
        Ok(())
    }

    fn check_remote(
        &mut self,
        rkey: Key,
        va: u64,
        len: u32,
        _access: Access,
    ) -> Result<(), RemoteFault> {
        assert_ne!(len, 0);
        let checked = self.remote(rkey, va, len).map(|_| ());
        if self.leaves {
            self.memory.clear();
        }
        checked
    }

    fn place_remote(&mut self, rkey: Key, va: u64, len: u32) -> Result<(), RemoteError> {
        assert_ne!(len, 0);
        let data = self.packet[..len as usize].to_vec();
        self.reach(rkey, va, len)?.copy_from_slice(&data);
        Ok(())
    }

    fn atomic(&mut self, rkey: Key, va: u64, op: AtomicOp) -> Result<u64, RemoteError> {
        assert_eq!(va % 8, 0);
        let bytes = self.reach(rkey, va, 8)?;
        let old = u64::from_ne_bytes(bytes.try_into().unwrap());
        let new = match op {
            AtomicOp::CompareSwap { compare, swap } if old == compare => swap,
            AtomicOp::CompareSwap { .. } => old,
            AtomicOp::FetchAdd { add } => old.wrapping_add(add),
        };
        bytes.copy_from_slice(&new.to_ne_bytes());
        Ok(old)
    }

    fn atomic_write(&mut self, rkey: Key, va: u64) -> Result<(), RemoteError> {
        assert_eq!(va % 8, 0);
        let data: [u8; 8] = self.packet[..].try_into().unwrap();
        self.reach(rkey, va, 8)?.copy_from_slice(&data);
        Ok(())
    }

    fn flush(
        &mut self,
        rkey: Key,
        range: Option<(u64, u32)>,
        placement: Placement,
    ) -> Result<(), RemoteFault> {
        assert!(placement.global || placement.persistent);
        let (va, len) = range.unwrap_or((MEMORY_BASE, self.memory.len() as u32));
        let found = self.remote(rkey, va, len)?.to_vec();
        self.flushed.push(found);
        Ok(())
    }

    fn invalidate(&mut self, rkey: Key) -> Result<(), InvalidateError> {
        if let Some(left) = self.busy.checked_sub(1) {
            self.busy = left;
            return Err(InvalidateError::Busy);
        }
        self.busy = self.busy_again;
        if self.bad_operations {
            return Err(InvalidateError::Fault);
        }
        self.invalidated.push(rkey);
        Ok(())
    }

    fn place_local(&mut self, slot: SendSlot, offset: u32, len: u32) -> Result<(), PlaceError> {
        self.local_status()?;
        assert_ne!(len, 0);
        let data = &self.packet[..len as usize];
        let buffer = &mut self.send_buffers[slot.get() as usize];
        if (offset as usize + data.len()) > buffer.len() {
            return Err(WcStatus::LocProtErr.into());
        }
        Self::local(buffer, offset, data);
        Ok(())
    }

    fn place_local_u64(&mut self, slot: SendSlot, value: u64) -> Result<(), PlaceError> {
        self.local_status()?;
        let buffer = &mut self.send_buffers[slot.get() as usize];
        Self::local(buffer, 0, &value.to_ne_bytes());
        Ok(())
    }

    fn retire_send(&mut self, slot: SendSlot) {
        let buffer = &mut self.send_buffers[slot.get() as usize];
        self.retired.push(std::mem::take(buffer));
    }

    fn is_sending(&self) -> bool {
        self.sending
    }

    fn complete_send(&mut self, wc: Wc) {
        self.sent.push(wc);
    }

    fn complete_recv(&mut self, slot: RecvSlot, wc: Wc) {
        self.received.push((slot, wc));
    }

    fn event(&mut self, event: QpEvent) {
        self.events.push(event);
    }

    fn heard(&mut self) {
        self.heard += 1;
    }
}
