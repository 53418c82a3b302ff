// SPDX-License-Identifier: GPL-2.0

//! NodeRecord, PortInfoRecord, SMInfoRecord and GUIDInfoRecord: what subnet management has told, or given (IBA
//! "NodeRecord", "PortInfoRecord", "SMInfoRecord", "GUIDInfoRecord").

use super::component::{
    matches,
    Components, //
};
use super::serve::Found;
use super::Request;
use crate::sm::{
    self,
    Manager,
    Node,
    Port, //
};
use wire::mad::sa::{
    GuidInfoRecord,
    NodeRecord,
    PortInfoRecord,
    Record,
    SmInfoRecord,
    DATA_LEN, //
};
use wire::mad::smp::{
    GuidInfo,
    NodeInfo,
    PortInfo,
    SmInfo, //
};

/// The components of a NodeRecord.
#[rustfmt::skip]
const NODE: Components = &[
    (0, 16), (16, 0), (32, 8), (40, 8), (48, 8), (56, 8), (64, 64), (128, 64), (192, 64), (256, 16),
    (272, 16), (288, 32), (320, 8), (328, 24), (352, 512),
];

/// The components of a PortInfoRecord. What is reserved between them counts, too.
#[rustfmt::skip]
const PORT: Components = &[
    (0, 16), (16, 8), (24, 0),
    // M_Key to LocalPortNum
    (32, 64), (96, 64), (160, 16), (176, 16), (192, 32), (224, 16), (240, 16), (256, 8),
    // LinkWidthEnabled to LMC
    (264, 8), (272, 8), (280, 8), (288, 4), (292, 4), (296, 4), (300, 4), (304, 2), (306, 0), (309, 3),
    // LinkSpeedActive to MTUCap
    (312, 4), (316, 4), (320, 4), (324, 4), (328, 4), (332, 4), (336, 8), (344, 8), (352, 8),
    (360, 4), (364, 4),
    // VLStallCount to FilterRawOutbound
    (368, 3), (371, 5), (376, 4), (380, 1), (381, 1), (382, 1), (383, 1),
    // violations to OverrunErrors
    (384, 16), (400, 16), (416, 16), (432, 8), (440, 1), (441, 0), (443, 5), (448, 0), (451, 5), (456, 4),
    (460, 4),
];

/// The components of an SMInfoRecord.
#[rustfmt::skip]
const SM: Components = &[(0, 16), (16, 0), (32, 64), (96, 64), (160, 32), (192, 4), (196, 4)];

/// The components of a GUIDInfoRecord.
#[rustfmt::skip]
const GUID: Components = &[
    (0, 16), (16, 8), (24, 0), (32, 0), (64, 64), (128, 64), (192, 64), (256, 64), (320, 64), (384, 64),
    (448, 64), (512, 64),
];

/// The largest number of blocks of GUIDs that a port has.
const GUID_BLOCKS: usize = u8::MAX.div_ceil(GuidInfo::ENTRIES as u8) as usize;

/// The uppermost bit of the attribute modifier: bits of the capability mask that are asked for are to be set, whatever
/// others are.
const MATCH_BITS: u32 = 1 << 31;

/// Whether a record is what a request asks for, `mask` saying by what.
fn is_asked<T: Record>(mask: u64, components: Components, request: &Request, record: &T) -> bool {
    let mut bytes = [0; DATA_LEN];
    record.emit(&mut bytes);
    matches(mask, components, request.sa().data(), &bytes)
}

/// The NodeRecord of the port in a place.
pub(super) fn node<M: sm::Storage>(
    manager: &Manager<M>,
    request: &Request,
    place: usize,
) -> Found<NodeRecord> {
    let Some((node, port)) = port_in(manager, place) else {
        return Found::End;
    };
    if !manager.is_end_port(port) {
        return Found::Nothing;
    }
    let record = NodeRecord {
        lid: port.lid(),
        info: NodeInfo {
            port_guid: port.guid(),
            local_port: port.number(),
            ..*node.info()
        },
        description: *node.description(),
    };
    if is_asked(request.sa().component_mask(), NODE, request, &record) {
        Found::Record(record)
    } else {
        Found::Nothing
    }
}

/// The PortInfoRecord of the port in a place. Who is not trusted is not told its M_Key.
pub(super) fn port<M: sm::Storage>(
    manager: &Manager<M>,
    request: &Request,
    place: usize,
    trusted: bool,
) -> Found<PortInfoRecord> {
    let Some((node, port)) = port_in(manager, place) else {
        return Found::End;
    };
    if !manager.is_here(port) {
        return Found::Nothing;
    }
    let told = port.info();
    let record = PortInfoRecord {
        lid: manager.lid_at(node, port),
        port: port.number(),
        info: PortInfo {
            mkey: if trusted { told.mkey } else { 0 },
            ..told
        },
    };
    let mut mask = request.sa().component_mask();
    if request.sa().header().attr_mod & MATCH_BITS != 0
        && mask & PortInfoRecord::CAPABILITY_MASK != 0
    {
        mask &= !PortInfoRecord::CAPABILITY_MASK;
        let asked = request.sa().record::<PortInfoRecord>().info.capability_mask;
        if told.capability_mask & asked != asked {
            return Found::Nothing;
        }
    }
    if is_asked(mask, PORT, request, &record) {
        Found::Record(record)
    } else {
        Found::Nothing
    }
}

/// The SMInfoRecord of the subnet manager in a place.
pub(super) fn subnet_manager<M: sm::Storage>(
    manager: &Manager<M>,
    request: &Request,
    place: usize,
) -> Found<SmInfoRecord> {
    let Some(known) = manager.manager_at(place) else {
        return Found::End;
    };
    // Keys are between subnet managers.
    let record = known.map(|(lid, info)| SmInfoRecord {
        lid,
        info: SmInfo { sm_key: 0, ..info },
    });
    match record {
        Some(record) if is_asked(request.sa().component_mask(), SM, request, &record) => {
            Found::Record(record)
        }
        _ => Found::Nothing,
    }
}

/// The GUIDInfoRecord in a place. Ports have their own GUID, and the subnet manager gives no others.
pub(super) fn guids<M: sm::Storage>(
    manager: &Manager<M>,
    request: &Request,
    place: usize,
) -> Found<GuidInfoRecord> {
    let (index, block) = (
        place.checked_div(GUID_BLOCKS).unwrap_or_default(),
        place.checked_rem(GUID_BLOCKS).unwrap_or_default(),
    );
    let Some((_, port)) = port_in(manager, index) else {
        return Found::End;
    };
    let first = block.saturating_mul(GuidInfo::ENTRIES);
    if !manager.is_end_port(port) || first >= usize::from(port.info().guid_cap) {
        return Found::Nothing;
    }
    let mut record = GuidInfoRecord {
        lid: port.lid(),
        block: block as u8,
        ..GuidInfoRecord::default()
    };
    if let (0, Some(own)) = (block, record.guids.0.first_mut()) {
        *own = port.guid();
    }
    if is_asked(request.sa().component_mask(), GUID, request, &record) {
        Found::Record(record)
    } else {
        Found::Nothing
    }
}

fn port_in<M: sm::Storage>(manager: &Manager<M>, place: usize) -> Option<(&Node, &Port)> {
    let index = u32::try_from(place).ok()?;
    if index >= manager.port_count() {
        return None;
    }
    manager.port_at(index)
}
