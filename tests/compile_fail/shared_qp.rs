// SPDX-License-Identifier: GPL-2.0
// E0308 types differ in mutability

//! A queue pair modified by several tasks at a time.

use sib_cm::{Id, Qp};

/// Loads a path into what somebody else may have, too.
pub fn test(id: &Id, qp: &Qp<'_>) {
    let _ = id.load(qp);
}
