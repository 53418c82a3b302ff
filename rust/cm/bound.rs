// SPDX-License-Identifier: GPL-2.0

//! The queue pair of a connection, as those know it who do not wait for the connection.
//!
//! The end of a queue pair is told while its owner waits, who may be writing out memory that others wait for. They may
//! be connections that want to send, so who tells it takes no mutex of a connection.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use proto::cm::{
    Conn,
    State, //
};

/// The number of the queue pair; 0 if it is not known yet, or may have another connection.
const QPN: u32 = 0xff_ffff;
/// The connection is established, or ends. Before that, putting the queue pair out of use is how to begin.
const BEGUN: u32 = 1 << 24;
/// The connection ends.
const ENDING: u32 = 1 << 25;
/// The program has put the queue pair out of use since the connection was established.
const PARTED: u32 = 1 << 26;

/// The queue pair of a connection.
pub(crate) struct Bound(Atomic<u32>);

impl Bound {
    /// There is none yet.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// The machine has made a step. To be called under the mutex of the connection, and before anybody is told of the
    /// step: who hears that the connection is established may end the queue pair at once.
    pub(crate) fn follow(&self, conn: &Conn) {
        let state = conn.state();
        let flags = match state {
            State::Established(_) => BEGUN,
            _ if state.is_ending() => BEGUN | ENDING,
            _ => 0,
        };
        self.update(|word| {
            if state.has_queue_pair() {
                conn.local_qpn().get() | flags | word & PARTED
            } else {
                0
            }
        });
    }

    /// The program has put this queue pair out of use.
    pub(crate) fn part(&self, qpn: u32) {
        self.update(|word| {
            if word & QPN == qpn && word & BEGUN != 0 {
                word | PARTED
            } else {
                word
            }
        });
    }

    /// Whether the connection has this queue pair. One that ends has none any more when the program has put that out of
    /// use: its number may be that of another.
    pub(crate) fn is(&self, qpn: u32) -> bool {
        let word = self.0.load(Relaxed);
        word & QPN == qpn && word & (ENDING | PARTED) != ENDING | PARTED
    }

    /// Whether the connection ends, or the program has put the queue pair out of use: if there is another one of this
    /// number, that is what it is used for.
    pub(crate) fn yields(&self) -> bool {
        self.0.load(Relaxed) & (ENDING | PARTED) != 0
    }

    fn update(&self, change: impl Fn(u32) -> u32) {
        let mut word = self.0.load(Relaxed);
        while let Err(present) = self.0.cmpxchg(word, change(word), Relaxed) {
            word = present;
        }
    }
}
