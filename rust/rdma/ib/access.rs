// SPDX-License-Identifier: GPL-2.0

//! Access rights of memory regions, windows and queue pairs.

use super::flags::{
    c_enum,
    flag_set, //
};
use sib_bindings as bindings;

flag_set! {
    /// What may be done to memory, `enum ib_access_flags`. Local reads are always allowed.
    pub struct AccessFlags(u32) {
        /// Local writes: receives, and results of reads and atomics.
        LOCAL_WRITE = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE,
        /// RDMA WRITE.
        REMOTE_WRITE = bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE,
        /// RDMA READ.
        REMOTE_READ = bindings::ib_access_flags_IB_ACCESS_REMOTE_READ,
        /// Atomic operations.
        REMOTE_ATOMIC = bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC,
        /// Windows may be bound to the region.
        MW_BIND = bindings::ib_access_flags_IB_ACCESS_MW_BIND,
        /// Addresses count from the start of the region.
        ZERO_BASED = bindings::ib_access_flags_IB_ZERO_BASED,
        /// Pages are faulted in as they are used.
        ON_DEMAND = bindings::ib_access_flags_IB_ACCESS_ON_DEMAND,
        /// The memory is of huge pages; a hint.
        HUGETLB = bindings::ib_access_flags_IB_ACCESS_HUGETLB,
        /// Hints, such as that writes may be seen out of order: who does not know one ignores it.
        OPTIONAL = bindings::ib_access_flags_IB_ACCESS_OPTIONAL,
        /// FLUSH to global visibility.
        FLUSH_GLOBAL = bindings::ib_access_flags_IB_ACCESS_FLUSH_GLOBAL,
        /// FLUSH to persistence.
        FLUSH_PERSISTENT = bindings::ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT,
    }
}

c_enum! {
    /// What a program says of the memory of a region that comes and goes, `enum ib_uverbs_advise_mr_advice`.
    pub enum Advice(u32) {
        /// It will be read.
        Prefetch = bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH,
        /// It will be written.
        PrefetchWrite = bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE,
        /// What is there of it will be read.
        PrefetchNoFault = bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
    }
}
