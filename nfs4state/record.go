package nfs4state

import (
	"encoding/binary"
	"fmt"
	"time"
)

// JournalHeader names the records of a State in a journal, and their form.
const JournalHeader = "nfsrdma nfs4 1"

// The kinds of records, in a record's first byte:
//
//	boot    epoch (4 bytes) │ lease in milliseconds (4): a State begins
//	client  transport (1) │ minor version (1) │ flags (1) │ flavour (4) │ user (4) │ co_ownerid
//	gone    transport (1) │ co_ownerid: the client has no state any more
//	named   transport (1) │ minor version (1) │ flags (1) │ flavour (4) │ length (1) │ name │ co_ownerid: a client
//	        whose maker was verified
//
// If a client's flags have hostFlag, its Host (32) is in front of co_ownerid.
//
//	over    grace has ended: clients without a record since the last boot have no state any more
//
// A transport has the bit sessionless in the records of clients of version 4.0, and is
// lockManager in those of Machines. A client's record replaces the client's earlier one. Integers are big-endian.
const (
	bootRecord byte = iota + 1
	clientRecord
	goneRecord
	overRecord
	namedRecord
)

const (
	bootLength   = 1 + 4 + 4
	clientLength = 1 + 1 + 1 + 1 + 4 + 4
	namedLength  = 1 + 1 + 1 + 1 + 4 + 1
	goneLength   = 1 + 1
)

// kinds are the kinds of state, besides opens without a deny mode, that a client
// has had since the last boot. They decide which calls of others wait in grace.
type kinds uint8

const (
	hadDeny kinds = 1 << iota
	hadLocks
	hadReads  // delegations for reading
	hadWrites // delegations for writing

	hadDelegations = hadReads | hadWrites
	allKinds       = hadDeny | hadLocks | hadDelegations

	// These are beside kinds in a client record.
	hostFlag    = 1 << 5
	sealedFlag  = 1 << 6
	revokedFlag = 1 << 7
)

// A record tells of a client with state, on stable storage.
type record struct {
	principal Principal
	host      Host
	minor     uint32
	had       kinds
	sealed    bool // a machine credential protects the client's state
	fresh     bool // written since the last boot: the end of grace leaves the record
	revoked   bool // single state was revoked, or not reclaimed in time: after a restart nothing may be reclaimed
	over      bool // in memory alone: revoked before the last boot, but the client may trust its delegations yet
}

func (r *record) appendTo(b []byte, key ownerKey) []byte {
	flags := byte(r.had)
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

// A Past is the content of stable storage that earlier States of a server have left.
type Past struct {
	// Epoch is that of the last State, or 0 if there was none.
	Epoch uint32

	// Unknown says that the records are lost: clients may have had anything, and
	// can reclaim nothing.
	Unknown bool

	lease   time.Duration // of the last State
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

// ReadPast returns the meaning of the records of a journal. An error means that
// a record is of another form: the state of clients is then unknown.
func ReadPast(records [][]byte) (Past, error) {
	p := Past{clients: make(map[ownerKey]record)}
	for _, b := range records {
		if !p.read(b) {
			return Past{}, fmt.Errorf("a record of %d bytes cannot be read: another version may have written it", len(b))
		}
	}
	return p, nil
}

// known reports whether a byte tells a transport, and perhaps version 4.0.
func known(b byte) bool { return Transport(b) == lockManager || Transport(b)&^sessionless <= RDMA }

// read applies a record, and reports whether its form is known.
func (p *Past) read(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	switch b[0] {
	case bootRecord:
		if len(b) != bootLength {
			return false
		}
		p.Epoch = binary.BigEndian.Uint32(b[1:])
		p.lease = time.Duration(binary.BigEndian.Uint32(b[5:])) * time.Millisecond
		for key, r := range p.clients {
			r.fresh = false
			p.clients[key] = r
		}
	case clientRecord, namedRecord:
		maker, id, ok := readMaker(b)
		if !ok || !known(b[1]) || kinds(b[3])&^(allKinds|hostFlag|sealedFlag|revokedFlag) != 0 {
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
			minor: uint32(b[2]), had: kinds(b[3]) & allKinds, sealed: b[3]&sealedFlag != 0, revoked: b[3]&revokedFlag != 0, fresh: true,
		}
	case goneRecord:
		if len(b) < goneLength || !known(b[1]) {
			return false
		}
		delete(p.clients, ownerKey{Transport(b[1]), string(b[goneLength:])})
	case overRecord:
		if len(b) != 1 {
			return false
		}
		for key, r := range p.clients {
			if !r.fresh {
				delete(p.clients, key)
			}
		}
	default:
		return false
	}
	return true
}

// readMaker returns the maker of a client's record, and the co_ownerid behind it, or
// false if the record is too short.
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
