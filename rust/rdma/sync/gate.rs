// SPDX-License-Identifier: GPL-2.0

//! Revocable use counts.

use super::{
    Atomic,
    Cx,
    Sleepable,
    Unlocked, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Relaxed,
    Release, //
};
use kernel::sync::Completion;

/// The bit of the state that says that the gate is closed; the other bits count passes.
const CLOSED: i32 = i32::MIN;

/// The largest number of passes at one time.
///
/// Far from the sign bit, so that nothing that leaks passes can open a closed gate.
const MAX_PASSES: i32 = i32::MAX / 2;

/// A use count that can be closed.
///
/// Users enter from any context; who closes the gate waits, without polling, until the last user has left.
///
/// # Invariants
///
/// The low 31 bits of `state` are the number of live passes. `idle` is completed once the gate is closed
/// and that number has become zero.
#[pin_data]
pub struct Gate {
    state: Atomic<i32>,
    #[pin]
    idle: Completion,
}

impl Gate {
    /// An initialiser of an open gate.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state: Atomic::new(0),
            idle <- Completion::new(),
        })
    }

    /// Enters, unless the gate is closed. Callable in any context.
    #[inline]
    pub fn enter(&self) -> Option<Pass<'_>> {
        self.try_enter().then(|| Pass { gate: self })
    }

    /// Whether [`Self::close`] has begun.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.state.load(Relaxed) < 0
    }

    /// Refuses new users, and waits until the present ones have left.
    ///
    /// What they did happens before the return. Closing twice is allowed, and the second call waits as well.
    pub fn close(&self, _cx: &mut Cx<'_, Unlocked>, _sleepable: Sleepable<'_>) {
        self.refuse();
        self.wait();
    }

    /// Counts a pass, unless the gate is closed.
    #[inline]
    pub(super) fn try_enter(&self) -> bool {
        let mut state = self.state.load(Relaxed);
        loop {
            if !(0..MAX_PASSES).contains(&state) {
                return false;
            }
            match self.state.cmpxchg(state, state.wrapping_add(1), Acquire) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
    }

    /// Counts one more pass of somebody who has one already, whether the gate is closed or not.
    #[inline]
    pub(super) fn enter_again(&self) -> bool {
        let mut state = self.state.load(Relaxed);
        loop {
            if state & !CLOSED >= MAX_PASSES {
                return false;
            }
            match self.state.cmpxchg(state, state.wrapping_add(1), Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
    }

    /// Gives back one pass, which was forgotten instead of dropped.
    #[inline]
    pub(crate) fn leave(&self) {
        if self.state.fetch_sub(1, Release) == CLOSED.wrapping_add(1) {
            self.idle.complete_all();
        }
    }

    /// Closes without waiting.
    pub(super) fn refuse(&self) {
        let mut state = self.state.load(Relaxed);
        while state >= 0 {
            match self.state.cmpxchg(state, state | CLOSED, Acquire) {
                Ok(0) => return self.idle.complete_all(),
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }

    /// Waits until a closed gate is idle. Sleeps.
    pub(super) fn wait(&self) {
        self.idle.wait_for_completion();
    }
}

/// The right to use what a [`Gate`] guards; given back on drop.
#[must_use = "the gate is left at once when the pass is unused"]
pub struct Pass<'a> {
    gate: &'a Gate,
}

impl Drop for Pass<'_> {
    #[inline]
    fn drop(&mut self) {
        self.gate.leave();
    }
}

#[kunit_tests(sib_rdma_gate)]
mod tests {
    use super::*;
    use crate::sync::test_context;

    #[test]
    fn closed_gate_refuses() -> Result {
        let (mut cx, sleepable) = test_context();
        let gate = KBox::pin_init(Gate::new(), GFP_KERNEL)?;
        assert!(gate.enter().is_some());
        let first = gate.enter();
        let second = gate.enter();
        assert!(first.is_some() && second.is_some());
        assert!(!gate.is_closed());
        gate.refuse();
        assert!(gate.is_closed());
        assert!(gate.enter().is_none());
        drop(first);
        drop(second);
        gate.close(&mut cx, sleepable);
        gate.close(&mut cx, sleepable);
        assert!(gate.enter().is_none());
        Ok(())
    }
}
