//go:build linux

package handletable

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
)

// A Place is a name in a directory, which is given by its inode number.
type Place struct {
	Dir  uint64
	Name string
}

// An Entry is what the table knows about an inode. On file:
//
//	CRC32C of all that follows (4) | bytes that follow (2)
//	inode (8) | birth (8) | home (8) | generation (4) | flags (1) | places (1)
//	with recordNow: inode (8) | birth (8)
//	for each place: directory (8), bytes of name (2), name
type Entry struct {
	ID
	Dead            bool     // the object is known to be removed
	Link            bool     // for one name of a hard-linked object
	changedIdentity Identity // the object's, if a change gave it another than in ID, or zero
	Places          []Place  // newest first; none if the object cannot be found
}

// An Identity distinguishes objects with one name.
type Identity struct{ Ino, Birth uint64 }

// An ID is the content of a handle with kind 2.
type ID struct {
	Ino   uint64
	Birth uint64 // distinguishes the object from others with its number
	Home  uint64 // the directory where the object was first seen, to search if the table has no entry
	Gen   uint32 // counts objects born in the same instant
}

// IDLen is an ID's length in a handle and in a record, in bytes.
const IDLen = 28

const (
	recordHead  = 6
	recordFixed = recordHead + IDLen + 2
	identityLen = 16
	placeFixed  = 10
)

// A record's flags.
const (
	recordDead = 1 << iota
	recordLink
	recordNow
	recordFlags = 1<<iota - 1
)

var errRecord = errors.New("vfs/posix: damaged record in handle table")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// IsStale reports whether the object's handles can no longer be opened.
func (e *Entry) IsStale() bool { return e.Dead || len(e.Places) == 0 }

// CurrentIdentity returns the object's current identity.
func (e *Entry) CurrentIdentity() Identity {
	if e.changedIdentity != (Identity{}) {
		return e.changedIdentity
	}
	return Identity{e.Ino, e.Birth}
}

// SetIdentity sets the object's current identity.
func (e *Entry) SetIdentity(id Identity) {
	e.changedIdentity = Identity{}
	if id != (Identity{e.Ino, e.Birth}) {
		e.changedIdentity = id
	}
}

// AppendTo appends the ID to b, as IDLen bytes.
func (id *ID) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, id.Ino)
	b = binary.BigEndian.AppendUint64(b, id.Birth)
	b = binary.BigEndian.AppendUint64(b, id.Home)
	return binary.BigEndian.AppendUint32(b, id.Gen)
}

// ParseID parses b's first IDLen bytes, which must be present.
func ParseID(b []byte) ID {
	return ID{
		Ino: binary.BigEndian.Uint64(b), Birth: binary.BigEndian.Uint64(b[8:]),
		Home: binary.BigEndian.Uint64(b[16:]), Gen: binary.BigEndian.Uint32(b[24:]),
	}
}

// appendRecord appends the entry's record to b.
func (e *Entry) appendRecord(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, recordHead)...)
	b = e.ID.AppendTo(b)
	flags := byte(0)
	if e.Dead {
		flags |= recordDead
	}
	if e.Link {
		flags |= recordLink
	}
	if e.changedIdentity != (Identity{}) {
		flags |= recordNow
	}
	b = append(b, flags, byte(len(e.Places)))
	if flags&recordNow != 0 {
		b = binary.BigEndian.AppendUint64(b, e.changedIdentity.Ino)
		b = binary.BigEndian.AppendUint64(b, e.changedIdentity.Birth)
	}
	for _, p := range e.Places {
		b = binary.BigEndian.AppendUint64(b, p.Dir)
		b = binary.BigEndian.AppendUint16(b, uint16(len(p.Name)))
		b = append(b, p.Name...)
	}
	rec := b[start:]
	binary.BigEndian.PutUint16(rec[4:], uint16(len(rec)-recordHead))
	binary.BigEndian.PutUint32(rec, crc32.Checksum(rec[4:], castagnoli))
	return b
}

// recordLen returns the length of b's first record; b has at least recordHead bytes.
func recordLen(b []byte) int { return recordHead + int(binary.BigEndian.Uint16(b[4:])) }

// parseRecord parses b, which must be exactly one whole record.
func parseRecord(b []byte) (e Entry, err error) {
	if len(b) < recordFixed || len(b) != recordLen(b) || crc32.Checksum(b[4:], castagnoli) != binary.BigEndian.Uint32(b) {
		return Entry{}, errRecord
	}
	e.ID = ParseID(b[recordHead:])
	flags, n := b[recordFixed-2], int(b[recordFixed-1])
	if flags > recordFlags || n > maxPlaces {
		return Entry{}, errRecord
	}
	e.Dead, e.Link = flags&recordDead != 0, flags&recordLink != 0
	rest := b[recordFixed:]
	if flags&recordNow != 0 {
		if len(rest) < identityLen {
			return Entry{}, errRecord
		}
		e.changedIdentity = Identity{binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:])}
		if e.changedIdentity == (Identity{}) {
			return Entry{}, errRecord
		}
		rest = rest[identityLen:]
	}
	for range n {
		if len(rest) < placeFixed {
			return Entry{}, errRecord
		}
		end := placeFixed + int(binary.BigEndian.Uint16(rest[8:]))
		if len(rest) < end {
			return Entry{}, errRecord
		}
		e.Places = append(e.Places, Place{binary.BigEndian.Uint64(rest), string(rest[placeFixed:end])})
		rest = rest[end:]
	}
	if len(rest) > 0 {
		return Entry{}, errRecord
	}
	return e, nil
}

// AddPlace puts p first. If there are too many places, the oldest is dropped.
func (e *Entry) AddPlace(p Place) {
	e.DropPlace(p)
	e.Places = slices.Insert(e.Places, 0, p)
	e.Places = e.Places[:min(len(e.Places), maxPlaces)]
}

// DropPlace removes p, if the entry has it.
func (e *Entry) DropPlace(p Place) {
	e.Places = slices.DeleteFunc(e.Places, func(q Place) bool { return q == p })
}

// DropButLast is DropPlace, but keeps the last place: its directory is searched for names that the
// table does not know.
func (e *Entry) DropButLast(p Place) {
	if len(e.Places) > 1 {
		e.DropPlace(p)
	}
}
