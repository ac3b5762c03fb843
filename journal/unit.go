package journal

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	unitHead   = 8       // bytes in front of a body
	recordHead = 4       // bytes in front of a record
	maxUnit    = 1 << 20 // bytes of a body

	// MaxRecord is the length in bytes of the longest record.
	MaxRecord = 1 << 16
)

// salt begins the bytes of every checksum of a file.
type salt [8]byte

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *salt) sum(length, body []byte) uint32 {
	sum := crc32.Update(0, castagnoli, s[:])
	sum = crc32.Update(sum, castagnoli, length)
	return crc32.Update(sum, castagnoli, body)
}

// appendRecord appends a record to a body.
func appendRecord(body, record []byte) []byte {
	body = binary.BigEndian.AppendUint32(body, uint32(len(record)))
	return append(body, record...)
}

// appendUnit appends a unit to b.
func (s *salt) appendUnit(b, body []byte) []byte {
	length := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	b = append(b, length...)
	b = binary.BigEndian.AppendUint32(b, s.sum(length, body))
	return append(b, body...)
}

// unit returns the body of the unit at the start of b, if there is one.
func (s *salt) unit(b []byte) (body []byte, ok bool) {
	if len(b) < unitHead {
		return nil, false
	}
	length, sum, rest := b[:4], binary.BigEndian.Uint32(b[4:]), b[unitHead:]
	n := binary.BigEndian.Uint32(length)
	if n == 0 || n > maxUnit || uint64(n) > uint64(len(rest)) || s.sum(length, rest[:n]) != sum {
		return nil, false
	}
	return rest[:n], true
}

// split returns the records of a body, which alias it, or false if the body has
// another form.
func split(body []byte) (records [][]byte, ok bool) {
	for len(body) > 0 {
		if len(body) < recordHead {
			return nil, false
		}
		n, rest := binary.BigEndian.Uint32(body), body[recordHead:]
		if n > MaxRecord || uint64(n) > uint64(len(rest)) {
			return nil, false
		}
		records = append(records, rest[:n:n])
		body = rest[n:]
	}
	return records, true
}

// read returns the records of a file behind its header, and the end of the last
// whole unit. If void is set, a unit in the midst is damaged.
func (s *salt) read(b []byte) (records [][]byte, end int, void bool) {
	for end < len(b) {
		body, ok := s.unit(b[end:])
		if !ok {
			return records, end, s.readable(b[end:])
		}
		more, ok := split(body)
		if !ok {
			return nil, end, true // nobody wrote this
		}
		records = append(records, more...)
		end += unitHead + len(body)
	}
	return records, end, false
}

// maxSearch bounds the search for a unit behind a damaged one: the bytes of all
// checksums. A file on which more must be spent was not written by a Journal.
const maxSearch = 1 << 30

// readable reports whether a unit begins anywhere behind the first byte of b.
func (s *salt) readable(b []byte) bool {
	spent := 0
	for at := 1; at+unitHead <= len(b); at++ {
		n := binary.BigEndian.Uint32(b[at:])
		if n == 0 || n > maxUnit || uint64(n) > uint64(len(b)-at-unitHead) {
			continue
		}
		if spent += int(n); spent > maxSearch {
			return true
		}
		if _, ok := s.unit(b[at:]); ok {
			return true
		}
	}
	return false
}
