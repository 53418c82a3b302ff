// SPDX-License-Identifier: GPL-2.0

//! Payload that is kept until it can be placed.

use crate::payload::Source;
use core::cmp::min;
use kernel::{
    alloc::Flags,
    page::PAGE_SIZE,
    prelude::*, //
};
use rdma::mem::AccessError;

/// A copy of the payload of a segment, in parts of a page, since larger ones are hard to come by in a softirq.
pub(crate) struct Kept {
    parts: KVec<KVec<u8>>,
    len: usize,
}

impl Kept {
    /// Copies a payload.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of [`Source::copy_out`].
    pub(crate) fn new(source: &Source<'_>, flags: Flags) -> Result<Self> {
        let len = source.len();
        let mut parts = KVec::with_capacity(len.div_ceil(PAGE_SIZE), flags)?;
        let mut done: usize = 0;
        while done < len {
            let size = min(PAGE_SIZE, len.wrapping_sub(done));
            let mut part = KVec::from_elem(0u8, size, flags)?;
            source.copy_out(done, &mut part)?;
            parts.push(part, flags)?;
            done = done.wrapping_add(size);
        }
        Ok(Self { parts, len })
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Calls `f` with the runs of bytes that together are the `len` bytes from `skip` on.
    pub(crate) fn walk(
        &self,
        mut skip: usize,
        len: usize,
        mut f: impl FnMut(&[u8]) -> Result<(), AccessError>,
    ) -> Result<(), AccessError> {
        let mut left = len;
        for part in &self.parts {
            if left == 0 {
                break;
            }
            let Some(rest) = part.get(skip..) else {
                skip = skip.wrapping_sub(part.len());
                continue;
            };
            let run = rest.get(..min(left, rest.len())).unwrap_or_default();
            f(run)?;
            left = left.wrapping_sub(run.len());
            skip = 0;
        }
        if left == 0 {
            Ok(())
        } else {
            Err(AccessError::OutOfBounds)
        }
    }
}
