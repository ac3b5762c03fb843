package nfs4state

import (
	"encoding/binary"
	"fmt"
	"time"
)

// JournalHeader identifies the format of a State's records in a journal.
const JournalHeader = "nfsrdma nfs4 1"

// The record types, in a record's first byte:
//
//	boot    epoch (4 bytes) │ lease in milliseconds (4): a State begins
//	client  transport (1) │ minor version (1) │ flags (1) │ flavor (4) │ user (4) │ co_ownerid
//	gone    transport (1) │ co_ownerid: the client no longer has state
//	named   transport (1) │ minor version (1) │ flags (1) │ flavor (4) │ length (1) │ name │ co_ownerid: a client
//	        whose principal was verified
//
// If a client's flags contain hostFlag, its Host (32) precedes co_ownerid.
//
//	over      the grace period has ended: clients without a record since the last boot no longer have state
//	counters  lease in milliseconds (4): clients may hold delegations with delegation counters, unless it is 0
//
// A transport has the bit sessionless in the records of NFSv4.0 clients, and is lockManager in
// those of Machines. A client's record replaces its earlier one. Integers are big-endian.
const (
	bootRecord byte = iota + 1
	clientRecord
	goneRecord
	overRecord
	namedRecord
	countersRecord
)

const (
	bootLength   = 1 + 4 + 4
	clientLength = 1 + 1 + 1 + 1 + 4 + 4
	namedLength  = 1 + 1 + 1 + 1 + 4 + 1
	goneLength   = 1 + 1

	countersLength = 1 + 4
)

// stateKinds are the kinds of state, other than opens without a deny mode, that a
// client has, or had recently (see trimRecord). They decide which calls of other
// clients wait in the grace period.
type stateKinds uint8

const (
	hadDeny stateKinds = 1 << iota
	hadLocks
	hadReads  // read delegations
	hadWrites // write delegations

	// anyState is set only in client.unusedKinds, if the client has no state.
	anyState = 1 << 7

	hadDelegations = hadReads | hadWrites
	allKinds       = hadDeny | hadLocks | hadDelegations

	// Other flags in a client record.
	hostFlag    = 1 << 5
	sealedFlag  = 1 << 6
	revokedFlag = 1 << 7
)

// A record describes a client with state, on stable storage.
type record struct {
	principal  Principal
	host       Host
	minor      uint32
	kinds      stateKinds
	sealed     bool // a machine credential protects the client's state
	current    bool // written since the last boot: the record outlasts the grace period
	revoked    bool // some state was revoked, or not reclaimed in time: after a restart nothing may be reclaimed
	onlyTrusts bool // only in memory: revoked before the last boot, but the client may still trust its delegations
}

func (r *record) appendTo(b []byte, key ownerKey) []byte {
	flags := byte(r.kinds)
	if r.revoked {
		flags |= revokedFlag
	}
	if r.sealed {
		flags |= sealedFlag
	}
	if r.host != (Host{}) {
		flags |= hostFlag
	}
	p, kind := &r.principal, clientRecord
	if p.Name != "" {
		kind = namedRecord
	}
	b = append(b, kind, byte(key.transport), byte(r.minor), flags)
	b = binary.BigEndian.AppendUint32(b, p.Flavor)
	if kind == namedRecord {
		b = append(append(b, byte(len(p.Name))), p.Name...)
	} else {
		b = binary.BigEndian.AppendUint32(b, p.UID)
	}
	if r.host != (Host{}) {
		b = append(b, r.host[:]...)
	}
	return append(b, key.id...)
}

func appendBoot(b []byte, epoch uint32, lease time.Duration) []byte {
	b = binary.BigEndian.AppendUint32(append(b, bootRecord), epoch)
	return binary.BigEndian.AppendUint32(b, uint32(min(lease.Milliseconds(), 1<<32-1)))
}

func appendGone(b []byte, key ownerKey) []byte {
	return append(append(b, goneRecord, byte(key.transport)), key.id...)
}

// A Past holds what earlier States of a server have left on stable storage.
type Past struct {
	// Epoch is the last State's epoch, or 0 if there was none.
	Epoch uint32

	// Unknown says that the records are lost: clients may have had any state,
	// and can reclaim nothing.
	Unknown bool

	// Counters is the lease with which clients may hold delegations with delegation
	// counters; 0 means that there are none.
	Counters time.Duration

	lease   time.Duration // the last State's
	clients map[ownerKey]record
}

// Clients returns the number of clients that may reclaim.
func (p *Past) Clients() (n int) {
	for _, r := range p.clients {
		if !r.revoked {
			n++
		}
	}
	return n
}

// ReadPast decodes a journal's records. An error means that a record has an
// unknown format: the clients' state is then unknown.
func ReadPast(records [][]byte) (Past, error) {
	p := Past{clients: make(map[ownerKey]record)}
	for _, b := range records {
		if !p.applyRecord(b) {
			return Past{}, fmt.Errorf("unknown format of a record of %d bytes: another version may have written it", len(b))
		}
	}
	return p, nil
}

// isKnownTransport reports whether a byte is a valid transport, with or without the
// bit for NFSv4.0.
func isKnownTransport(b byte) bool {
	return Transport(b) == lockManager || Transport(b)&^sessionless <= RDMA
}

// applyRecord applies a record, and reports whether its format is known.
func (p *Past) applyRecord(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	switch b[0] {
	case bootRecord:
		if len(b) != bootLength {
			return false
		}
		p.Epoch = binary.BigEndian.Uint32(b[1:])
		p.lease = readMilliseconds(b[5:])
		for key, r := range p.clients {
			r.current = false
			p.clients[key] = r
		}
	case clientRecord, namedRecord:
		maker, id, ok := readMaker(b)
		if !ok || !isKnownTransport(b[1]) || stateKinds(b[3])&^(allKinds|hostFlag|sealedFlag|revokedFlag) != 0 {
			return false
		}
		var host Host
		if b[3]&hostFlag != 0 {
			if len(id) < len(host) {
				return false
			}
			id = id[copy(host[:], id):]
		}
		p.clients[ownerKey{Transport(b[1]), string(id)}] = record{
			principal: maker, host: host,
			minor: uint32(b[2]), kinds: stateKinds(b[3]) & allKinds, sealed: b[3]&sealedFlag != 0, revoked: b[3]&revokedFlag != 0, current: true,
		}
	case goneRecord:
		if len(b) < goneLength || !isKnownTransport(b[1]) {
			return false
		}
		delete(p.clients, ownerKey{Transport(b[1]), string(b[goneLength:])})
	case overRecord:
		if len(b) != 1 {
			return false
		}
		for key, r := range p.clients {
			if !r.current {
				delete(p.clients, key)
			}
		}
	case countersRecord:
		if len(b) != countersLength {
			return false
		}
		p.Counters = readMilliseconds(b[1:])
	default:
		return false
	}
	return true
}

func readMilliseconds(b []byte) time.Duration {
	return time.Duration(binary.BigEndian.Uint32(b)) * time.Millisecond
}

// readMaker returns the principal in a client's record, and the co_ownerid that
// follows, or false if the record is too short.
func readMaker(b []byte) (p Principal, id []byte, ok bool) {
	switch {
	case b[0] == clientRecord && len(b) >= clientLength:
		return Principal{Flavor: binary.BigEndian.Uint32(b[4:]), UID: binary.BigEndian.Uint32(b[8:])}, b[clientLength:], true
	case b[0] == namedRecord && len(b) >= namedLength && b[8] > 0 && len(b) >= namedLength+int(b[8]):
		end := namedLength + int(b[8])
		return Principal{Flavor: binary.BigEndian.Uint32(b[4:]), Name: string(b[namedLength:end])}, b[end:], true
	}
	return p, nil, false
}
