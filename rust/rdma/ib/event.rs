// SPDX-License-Identifier: GPL-2.0

//! Asynchronous events. IBA, "Asynchronous Events"; C header:
//! [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h), `enum ib_event_type`.

use super::flags::c_enum;
use sib_bindings as bindings;

c_enum! {
    /// An event of a queue pair.
    pub enum QpEvent(u32) {
        /// A local catastrophic error.
        Fatal = bindings::ib_event_type_IB_EVENT_QP_FATAL,
        /// An invalid request came in.
        RequestError = bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
        /// A request violated access rights.
        AccessError = bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
        /// The first packet arrived while in RTR.
        CommEst = bindings::ib_event_type_IB_EVENT_COMM_EST,
        /// The send queue is drained.
        SqDrained = bindings::ib_event_type_IB_EVENT_SQ_DRAINED,
        /// The path has migrated.
        PathMig = bindings::ib_event_type_IB_EVENT_PATH_MIG,
        /// A request to migrate failed.
        PathMigErr = bindings::ib_event_type_IB_EVENT_PATH_MIG_ERR,
        /// In error, the last work request of a shared receive queue has been taken.
        LastWqeReached = bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
    }
}

c_enum! {
    /// An event of a shared receive queue.
    pub enum SrqEvent(u32) {
        /// The queue is in error.
        Error = bindings::ib_event_type_IB_EVENT_SRQ_ERR,
        /// The number of work requests fell below the limit.
        LimitReached = bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED,
    }
}

c_enum! {
    /// An event of a port.
    ///
    /// ib_core reads the GID table again on [`Self::GidChange`] and [`Self::ClientReregister`] alone, the
    /// P_Key table on [`Self::PkeyChange`] alone, and the attributes on all but [`Self::SmChange`].
    pub enum PortEvent(u32) {
        /// The port became active.
        Active = bindings::ib_event_type_IB_EVENT_PORT_ACTIVE,
        /// The port is no longer active.
        Error = bindings::ib_event_type_IB_EVENT_PORT_ERR,
        /// The LID or the LMC changed.
        LidChange = bindings::ib_event_type_IB_EVENT_LID_CHANGE,
        /// The P_Key table changed.
        PkeyChange = bindings::ib_event_type_IB_EVENT_PKEY_CHANGE,
        /// The LID or service level of the subnet manager changed.
        SmChange = bindings::ib_event_type_IB_EVENT_SM_CHANGE,
        /// The subnet manager wants clients to register again.
        ClientReregister = bindings::ib_event_type_IB_EVENT_CLIENT_REREGISTER,
        /// The GID table or the subnet prefix changed.
        GidChange = bindings::ib_event_type_IB_EVENT_GID_CHANGE,
    }
}
