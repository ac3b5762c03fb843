//go:build linux

package posix

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
)

// A place is a name in a directory, which is given by its inode number.
type place struct {
	dir  uint64
	name string
}

// An entry is the table's knowledge of an inode. On file:
//
//	CRC32C of all that follows (4) | bytes that follow (2)
//	inode (8) | birth (8) | home (8) | generation (4) | dead (1)
//	places (1) | for each: directory (8), bytes of name (2), name
type entry struct {
	tableID
	dead   bool    // the object is known to be removed
	places []place // newest first; none if the object cannot be found
}

// A tableID is the content of a handle of kind 2.
type tableID struct {
	ino   uint64
	birth uint64 // distinguishes the object from others with its number
	home  uint64 // the directory of the first sighting, to search if the table has no entry
	gen   uint32 // counts objects born in the same instant
}

const (
	recordHead  = 6
	tableIDLen  = 28
	recordFixed = recordHead + tableIDLen + 2
	placeFixed  = 10
)

var errRecord = errors.New("vfs/posix: damaged record in handle table")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// gone reports whether handles of the object open nothing.
func (e *entry) gone() bool { return e.dead || len(e.places) == 0 }

func (id *tableID) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, id.ino)
	b = binary.BigEndian.AppendUint64(b, id.birth)
	b = binary.BigEndian.AppendUint64(b, id.home)
	return binary.BigEndian.AppendUint32(b, id.gen)
}

// parseTableID parses the first tableIDLen bytes of b, which must be present.
func parseTableID(b []byte) tableID {
	return tableID{
		ino: binary.BigEndian.Uint64(b), birth: binary.BigEndian.Uint64(b[8:]),
		home: binary.BigEndian.Uint64(b[16:]), gen: binary.BigEndian.Uint32(b[24:]),
	}
}

// appendTo appends the entry's record to b.
func (e *entry) appendTo(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, recordHead)...)
	b = e.tableID.appendTo(b)
	dead := byte(0)
	if e.dead {
		dead = 1
	}
	b = append(b, dead, byte(len(e.places)))
	for _, p := range e.places {
		b = binary.BigEndian.AppendUint64(b, p.dir)
		b = binary.BigEndian.AppendUint16(b, uint16(len(p.name)))
		b = append(b, p.name...)
	}
	rec := b[start:]
	binary.BigEndian.PutUint16(rec[4:], uint16(len(rec)-recordHead))
	binary.BigEndian.PutUint32(rec, crc32.Checksum(rec[4:], castagnoli))
	return b
}

// recordLen returns the length of the record at the start of b, which has at
// least recordHead bytes.
func recordLen(b []byte) int { return recordHead + int(binary.BigEndian.Uint16(b[4:])) }

// parseRecord parses b, which must be exactly one whole record.
func parseRecord(b []byte) (e entry, err error) {
	if len(b) < recordFixed || len(b) != recordLen(b) || crc32.Checksum(b[4:], castagnoli) != binary.BigEndian.Uint32(b) {
		return entry{}, errRecord
	}
	e.tableID = parseTableID(b[recordHead:])
	dead, n := b[recordFixed-2], int(b[recordFixed-1])
	if dead > 1 || n > maxPlaces {
		return entry{}, errRecord
	}
	e.dead = dead == 1
	rest := b[recordFixed:]
	for range n {
		if len(rest) < placeFixed {
			return entry{}, errRecord
		}
		end := placeFixed + int(binary.BigEndian.Uint16(rest[8:]))
		if len(rest) < end {
			return entry{}, errRecord
		}
		e.places = append(e.places, place{binary.BigEndian.Uint64(rest), string(rest[placeFixed:end])})
		rest = rest[end:]
	}
	if len(rest) > 0 {
		return entry{}, errRecord
	}
	return e, nil
}

// add puts p first. If there are too many places, the oldest is dropped.
func (e *entry) add(p place) {
	e.drop(p)
	e.places = slices.Insert(e.places, 0, p)
	e.places = e.places[:min(len(e.places), maxPlaces)]
}

func (e *entry) drop(p place) {
	e.places = slices.DeleteFunc(e.places, func(q place) bool { return q == p })
}

// dropButLast is drop, except that it keeps the last place: its directory is
// searched for names of the object that the table does not know.
func (e *entry) dropButLast(p place) {
	if len(e.places) > 1 {
		e.drop(p)
	}
}
