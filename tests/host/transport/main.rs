// SPDX-License-Identifier: GPL-2.0

//! The transport machines against each other, in virtual time.

mod answers;
mod asking;
mod credits;
mod datagram;
mod deferral;
mod ends;
mod faults;
mod host;
mod hostile;
mod late;
mod ledger;
mod migration;
mod probe;
mod rules;
mod stream;
mod unreliable;
mod withdrawn;
mod world;
