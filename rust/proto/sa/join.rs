// SPDX-License-Identifier: GPL-2.0

//! MCMemberRecord: who makes, joins and leaves multicast groups, and who asks for them (IBA "MCMemberRecord").

use super::component::{
    matches,
    selects,
    selects_rate,
    Components, //
};
use super::groups::{
    Group,
    Member,
    KEEPS, //
};
use super::serve::{
    Answer,
    Found,
    Refusal, //
};
use super::{
    mgid,
    Agent,
    Request,
    Storage, //
};
use crate::sm::{
    self,
    Manager,
    Passage, //
};
use crate::time::Instant;
use wire::mad::sa::{
    selector,
    status,
    McMemberRecord,
    Record, //
};
use wire::mad::smp::trap;
use wire::{
    Gid,
    Lid,
    Mtu,
    PKey,
    QKey,
    Rate,
    Sl, //
};

/// A record that says nothing.
pub(super) const EMPTY: McMemberRecord = McMemberRecord {
    mgid: Gid::ZERO,
    port_gid: Gid::ZERO,
    qkey: QKey::new(0),
    mlid: Lid::NONE,
    mtu_selector: 0,
    mtu: 0,
    traffic_class: 0,
    pkey: PKey::INVALID,
    rate_selector: 0,
    rate: 0,
    packet_life_time_selector: 0,
    packet_life_time: 0,
    sl: Sl::new(0),
    flow_label: 0,
    hop_limit: 0,
    scope: 0,
    join_state: 0,
    proxy_join: false,
};

/// The Q_Key of IP groups (RFC 4391, section 4.3 leaves it to the manager; this is everybody's).
const IP_QKEY: QKey = QKey::new(0x0b1b);

/// What a request to join needs.
const JOIN_NEEDS: u64 = McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;

/// What a request to make a group needs besides.
const CREATE_NEEDS: u64 = McMemberRecord::QKEY
    | McMemberRecord::PKEY
    | McMemberRecord::TRAFFIC_CLASS
    | McMemberRecord::FLOW_LABEL
    | McMemberRecord::SL;

/// What a request to leave needs.
const LEAVE_NEEDS: u64 = JOIN_NEEDS | McMemberRecord::MGID;

const MTU: u64 = McMemberRecord::MTU_SELECTOR | McMemberRecord::MTU;
const RATE: u64 = McMemberRecord::RATE_SELECTOR | McMemberRecord::RATE;
const LIFE: u64 = McMemberRecord::PACKET_LIFE_TIME_SELECTOR | McMemberRecord::PACKET_LIFE_TIME;

/// The longest PacketLifeTime: its code has 6 bits.
const MAX_LIFE: u8 = 63;

/// The components, but for those with selectors and the join state.
const COMPONENTS: Components = &[
    (0, 128),
    (128, 128),
    (256, 32),
    (288, 16),
    (304, 0),
    (306, 0),
    (312, 8),
    // The kind of membership says nothing about the partition.
    (321, 15),
    (336, 0),
    (338, 0),
    (344, 0),
    (346, 0),
    (352, 4),
    (356, 20),
    (376, 8),
    (384, 4),
    (388, 0),
    (392, 1),
];

/// Whether `mask` has all of `bits`.
const fn has(mask: u64, bits: u64) -> bool {
    mask & bits == bits
}

/// The value that a group gets: what was asked for, or the best there is. `None` if that is not possible.
fn settle<T: PartialOrd + Copy>(
    asked: Option<(u8, T)>,
    best: T,
    below: impl FnOnce(T) -> Option<T>,
) -> Option<T> {
    match asked {
        None => Some(best),
        Some((selector::EXACT, value)) => (value <= best).then_some(value),
        Some((selector::GREATER, value)) => (best > value).then_some(best),
        Some((selector::LESS, value)) if best < value => Some(best),
        Some((selector::LESS, value)) => below(value),
        Some(_) => Some(best),
    }
}

/// The life time that a group gets: what was asked for, or `own`. `None` if that is not possible.
fn settle_life(asked: Option<(u8, u8)>, own: u8) -> Option<u8> {
    match asked {
        Some((selector::EXACT, value)) => Some(value),
        Some((selector::LESS, value)) => (own < value).then_some(own),
        Some((selector::GREATER, value)) if own <= value => {
            value.checked_add(1).filter(|life| *life <= MAX_LIFE)
        }
        _ => Some(own),
    }
}

/// Whether MTU, rate and life time of a group are what a request wants of them.
fn selected(mask: u64, asked: &McMemberRecord, group: &McMemberRecord) -> bool {
    let mtu = || selects(asked.mtu_selector, asked.mtu, group.mtu);
    let rate = || {
        let rate = Rate::from_code(group.rate);
        selects_rate(asked.rate_selector, asked.rate, rate)
    };
    let life = || {
        let (asked_life, life) = (asked.packet_life_time, group.packet_life_time);
        selects(asked.packet_life_time_selector, asked_life, life)
    };
    (!has(mask, MTU) || mtu()) && (!has(mask, RATE) || rate()) && (!has(mask, LIFE) || life())
}

/// Whether a request wants a group as this one is.
fn agrees(mask: u64, asked: &McMemberRecord, group: &McMemberRecord) -> bool {
    let (mut want, mut have) = ([0; McMemberRecord::SIZE], [0; McMemberRecord::SIZE]);
    asked.emit(&mut want);
    group.emit(&mut have);
    matches(mask, COMPONENTS, &want, &have) && selected(mask, asked, group)
}

/// The parameters of the group of all IP hosts, where packets meet at worst `met`.
fn ip_group(place: usize, pkey: PKey, life: u8, met: Passage) -> Option<McMemberRecord> {
    let (signature, group) = *mgid::IP.get(place)?;
    Some(McMemberRecord {
        mgid: mgid::ip(signature, pkey, group),
        qkey: IP_QKEY,
        mtu_selector: selector::EXACT,
        mtu: met.mtu.code(),
        pkey,
        rate_selector: selector::EXACT,
        rate: met.rate.code(),
        packet_life_time_selector: selector::EXACT,
        packet_life_time: life,
        scope: mgid::LINK_LOCAL,
        ..EMPTY
    })
}

impl<S: Storage> Agent<S> {
    /// Makes the groups of all IP hosts of each partition. As long as nobody is in them, they fit the narrowest link.
    pub(super) fn make_ip_groups<M: sm::Storage>(&mut self, manager: &Manager<M>) {
        let met = manager.narrowest();
        let life = self.config.packet_life_time;
        let all = manager.partitions();
        let all = all.flat_map(|pkey| (0..mgid::IP.len()).map(move |place| (pkey, place)));
        for (pkey, place) in all {
            let Some(record) = ip_group(place, pkey, life, met) else {
                continue;
            };
            let found = self.groups.find(record.mgid);
            let index = match found {
                Some(index) if !self.groups.is_empty(index) => continue,
                Some(index) => index,
                None => match self.groups.create(&record, manager.multicast_lids()) {
                    Ok(index) => {
                        self.tell_gid(manager, trap::GROUP_CREATED, record.mgid);
                        index
                    }
                    Err(_) => continue,
                },
            };
            if let Some(group) = self.groups.get_mut(index) {
                group.permanent = true;
                group.record.mtu = record.mtu;
                group.record.rate = record.rate;
            }
        }
    }

    /// Has IP groups that have members fit a narrower link than there was before. Members learn of it when they join
    /// again, for which they are asked.
    pub(super) fn narrow_ip_groups<M: sm::Storage>(
        &mut self,
        manager: &mut Manager<M>,
        now: Instant,
    ) {
        let met = manager.narrowest();
        for index in 0..self.groups.group_slots() {
            let Some(group) = self.groups.get_mut(index) else {
                continue;
            };
            let record = &mut group.record;
            let fits =
                record.mtu <= met.mtu.code() && Rate::from_code(record.rate) <= Some(met.rate);
            if fits || !mgid::is_ip(record.mgid) {
                continue;
            }
            let rate = Rate::from_code(record.rate).map_or(met.rate, |rate| rate.min(met.rate));
            record.mtu = record.mtu.min(met.mtu.code());
            record.rate = rate.code();
            for member in self.groups.of(index) {
                manager.ask_to_register(member.port, now);
            }
        }
    }

    /// Set: to join a group, and to make it if it is not there.
    pub(super) fn join<M: sm::Storage>(
        &mut self,
        manager: &Manager<M>,
        request: &Request,
    ) -> Result<Answer, Refusal> {
        let asked: McMemberRecord = request.sa().record();
        let mask = request.sa().component_mask();
        if !has(mask, JOIN_NEEDS) {
            return Err(Refusal(status::INSUFFICIENT_COMPONENTS));
        }
        if asked.join_state == 0 {
            return Err(Refusal(status::REQUEST_INVALID));
        }
        let port = manager
            .port_of_gid(asked.port_gid)
            .ok_or(Refusal(status::INVALID_GID))?;
        let can = manager
            .passage_at(port)
            .ok_or(Refusal(status::INVALID_GID))?;
        let named = has(mask, McMemberRecord::MGID) && asked.mgid != Gid::ZERO;
        let known = self.groups.find(asked.mgid).filter(|_| named);
        let proxy = request.port(manager) != Some(port);
        let pkey = known.and_then(|known| self.groups.get(known));
        let pkey = pkey.map_or(asked.pkey, |group| group.record.pkey);
        if proxy && !request.shares(manager, pkey) {
            return Err(Refusal(status::DENIED));
        }
        // Who has joined by himself says alone how he takes part.
        let by_itself = known
            .and_then(|known| self.groups.member(known, asked.port_gid))
            .and_then(|place| self.groups.member_at(place))
            .is_some_and(|(_, member)| !member.proxy);
        if proxy && by_itself {
            return Err(Refusal(status::REQUEST_INVALID));
        }
        let group = match known {
            Some(group) => {
                self.may_join(manager, mask, &asked, group, (port, can))?;
                group
            }
            None => self.create(manager, mask, &asked, named, (port, can))?,
        };
        let member = Member {
            port,
            gid: asked.port_gid,
            join_state: asked.join_state,
            proxy,
            ..Member::new()
        };
        let joined = self.groups.join(group, &member);
        let Ok(join_state) = joined else {
            self.groups.end(group);
            return Err(Refusal(status::NO_RESOURCES));
        };
        let record = self.groups.get(group).map_or(EMPTY, |group| group.record);
        if known.is_none() {
            self.tell_gid(manager, trap::GROUP_CREATED, record.mgid);
        }
        Ok(Answer::of(&McMemberRecord {
            port_gid: asked.port_gid,
            join_state,
            proxy_join: member.proxy,
            ..record
        }))
    }

    /// Whether a port, whose link bears `can`, may join a group: it is in the partition, the request agrees with the
    /// group, and the link bears it.
    fn may_join<M: sm::Storage>(
        &self,
        manager: &Manager<M>,
        mask: u64,
        asked: &McMemberRecord,
        group: usize,
        (port, can): (u32, Passage),
    ) -> Result<(), Refusal> {
        /// What a member says of itself.
        const MEMBER: u64 = McMemberRecord::PORT_GID
            | McMemberRecord::JOIN_STATE
            | McMemberRecord::PROXY_JOIN
            | McMemberRecord::HOP_LIMIT;
        let group = self.groups.get(group).map_or(EMPTY, |group| group.record);
        let bears = can.mtu.code() >= group.mtu && Some(can.rate) >= Rate::from_code(group.rate);
        let is_member = manager.pkey_at(port, group.pkey).is_some();
        if is_member && bears && agrees(mask & !MEMBER, asked, &group) {
            Ok(())
        } else {
            Err(Refusal(status::REQUEST_INVALID))
        }
    }

    /// Makes the group that a port, whose link bears `can`, asks for.
    fn create<M: sm::Storage>(
        &mut self,
        manager: &Manager<M>,
        mask: u64,
        asked: &McMemberRecord,
        named: bool,
        (port, can): (u32, Passage),
    ) -> Result<usize, Refusal> {
        const INVALID: Refusal = Refusal(status::REQUEST_INVALID);
        if asked.join_state & KEEPS == 0 {
            return Err(INVALID);
        }
        if !has(mask, CREATE_NEEDS) {
            return Err(Refusal(status::INSUFFICIENT_COMPONENTS));
        }
        if manager.pkey_at(port, asked.pkey).is_none() {
            return Err(INVALID);
        }
        let with = |bits: u64| has(mask, bits);
        // What is to be the best says nothing by its value.
        let with_value = |bits: u64, how: u8| with(bits) && how != selector::BEST;
        let mtu = if with_value(MTU, asked.mtu_selector) {
            let code = Mtu::from_code(asked.mtu).ok_or(INVALID)?;
            Some((asked.mtu_selector, code))
        } else {
            None
        };
        let mtu = settle(mtu, can.mtu, |value| {
            Mtu::from_code(value.code().checked_sub(1)?)
        });
        let rate = if with_value(RATE, asked.rate_selector) {
            let code = Rate::from_code(asked.rate).ok_or(INVALID)?;
            Some((asked.rate_selector, code))
        } else {
            None
        };
        let rate = settle(rate, can.rate, |value| {
            let below = Rate::fitting(value.mbps().checked_sub(1)?);
            (below < value).then_some(below)
        });
        let life = (asked.packet_life_time_selector, asked.packet_life_time);
        let life = settle_life(with(LIFE).then_some(life), self.config.packet_life_time);
        let scope = if with(McMemberRecord::SCOPE) {
            asked.scope
        } else if named {
            mgid::scope(asked.mgid)
        } else {
            mgid::LINK_LOCAL
        };
        let name = if named {
            let fits = mgid::may_be_given(asked.mgid)
                && mgid::scope(asked.mgid) == scope
                && !mgid::is_elsewhere(asked.mgid, asked.pkey);
            fits.then_some(asked.mgid).ok_or(INVALID)?
        } else if mgid::is_scope(scope) {
            self.new_name(scope, manager.gid_prefix())
        } else {
            return Err(INVALID);
        };
        let record = McMemberRecord {
            mgid: name,
            port_gid: Gid::ZERO,
            mtu_selector: selector::EXACT,
            mtu: mtu.ok_or(INVALID)?.code(),
            rate_selector: selector::EXACT,
            rate: rate.ok_or(INVALID)?.code(),
            packet_life_time_selector: selector::EXACT,
            packet_life_time: life.ok_or(INVALID)?,
            hop_limit: if with(McMemberRecord::HOP_LIMIT) {
                asked.hop_limit
            } else {
                0
            },
            scope,
            join_state: 0,
            proxy_join: false,
            ..*asked
        };
        self.groups
            .create(&record, manager.multicast_lids())
            .map_err(|_| Refusal(status::NO_RESOURCES))
    }

    /// A name that no group has.
    fn new_name(&mut self, scope: u8, prefix: u64) -> Gid {
        loop {
            self.groups.serial = self.groups.serial.wrapping_add(1);
            let name = mgid::own(scope, prefix, self.groups.serial);
            if self.groups.find(name).is_none() {
                return name;
            }
        }
    }

    /// Delete: to leave a group.
    pub(super) fn leave<M: sm::Storage>(
        &mut self,
        manager: &Manager<M>,
        request: &Request,
    ) -> Result<Answer, Refusal> {
        const INVALID: Refusal = Refusal(status::REQUEST_INVALID);
        let asked: McMemberRecord = request.sa().record();
        if !has(request.sa().component_mask(), LEAVE_NEEDS) {
            return Err(Refusal(status::INSUFFICIENT_COMPONENTS));
        }
        let group = self.groups.find(asked.mgid).ok_or(INVALID)?;
        let place = self.groups.member(group, asked.port_gid).ok_or(INVALID)?;
        let (group, member) = self.groups.member_at(place).ok_or(INVALID)?;
        let (record, member) = (group.record, *member);
        if asked.join_state == 0 || asked.join_state & !member.join_state != 0 {
            return Err(INVALID);
        }
        let by_itself = request.port(manager) == Some(member.port);
        let by_proxy = member.proxy && request.shares(manager, record.pkey);
        if !by_itself && !by_proxy {
            return Err(Refusal(status::DENIED));
        }
        let (join_state, ended) = self.groups.leave(place, asked.join_state);
        if let Some(mgid) = ended {
            self.tell_gid(manager, trap::GROUP_DELETED, mgid);
        }
        Ok(Answer::of(&McMemberRecord {
            port_gid: asked.port_gid,
            join_state,
            proxy_join: member.proxy,
            ..record
        }))
    }

    /// The record in a place: members first, then groups. Who is not trusted learns of groups alone, and of his own port,
    /// in partitions that he is in.
    pub(super) fn group_record<M: sm::Storage>(
        &self,
        manager: &Manager<M>,
        request: &Request,
        place: usize,
        trusted: bool,
    ) -> Found<McMemberRecord> {
        let slots = self.groups.member_slots();
        let with_port = request.sa().component_mask() & McMemberRecord::PORT_GID != 0;
        let members = trusted || with_port;
        let record = match place.checked_sub(slots) {
            None => self
                .groups
                .member_at(place)
                .filter(|(_, member)| {
                    trusted || (with_port && request.port(manager) == Some(member.port))
                })
                .map(|(group, member)| McMemberRecord {
                    port_gid: member.gid,
                    join_state: member.join_state,
                    proxy_join: member.proxy,
                    ..group.record
                }),
            Some(group) if group < self.groups.group_slots() => self
                .groups
                .get(group)
                .filter(|_| !members || self.groups.is_empty(group))
                .map(Group::record)
                .copied(),
            Some(_) => return Found::End,
        };
        let asked: McMemberRecord = request.sa().record();
        let mask = request.sa().component_mask();
        let joined = |record: &McMemberRecord| {
            !has(mask, McMemberRecord::JOIN_STATE) || asked.join_state & record.join_state != 0
        };
        match record {
            Some(record)
                if (trusted || request.shares(manager, record.pkey))
                    && joined(&record)
                    && agrees(mask, &asked, &record) =>
            {
                Found::Record(record)
            }
            _ => Found::Nothing,
        }
    }
}
