package journal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

const (
	unitHead   = 16      // bytes in front of a body
	recordHead = 4       // bytes in front of a record
	maxUnit    = 1 << 20 // bytes of a body

	// MaxRecord is the length in bytes of the longest record.
	MaxRecord = 1 << 16
)

// A salt begins every unit of a file, and the bytes of every checksum.
type salt [8]byte

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum returns the CRC32C of the salt and b.
func (s *salt) sum(b ...[]byte) uint32 {
	sum := crc32.Update(0, castagnoli, s[:])
	for _, b := range b {
		sum = crc32.Update(sum, castagnoli, b)
	}
	return sum
}

// appendRecord appends a record to a body.
func appendRecord(body, record []byte) []byte {
	body = binary.BigEndian.AppendUint32(body, uint32(len(record)))
	return append(body, record...)
}

// appendUnit appends a unit to b.
func (s *salt) appendUnit(b, body []byte) []byte {
	b = append(b, s[:]...)
	length := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	b = append(b, length...)
	b = binary.BigEndian.AppendUint32(b, s.sum(length, body))
	return append(b, body...)
}

// unit returns the body of the unit at the start of b, if there is one.
func (s *salt) unit(b []byte) (body []byte, ok bool) {
	if len(b) < unitHead || !bytes.HasPrefix(b, s[:]) {
		return nil, false
	}
	length, sum, rest := b[8:12], binary.BigEndian.Uint32(b[12:]), b[unitHead:]
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

// read returns the records of a file behind its header, and the start and end of
// the last whole unit. If void is set, bytes behind that end are no torn unit.
func (s *salt) read(b []byte) (records [][]byte, start, end int, void bool) {
	for end < len(b) {
		body, ok := s.unit(b[end:])
		if !ok {
			return records, start, end, !s.torn(b[end:])
		}
		more, ok := split(body)
		if !ok {
			return nil, start, end, true // no Append wrote this
		}
		records = append(records, more...)
		start, end = end, end+unitHead+len(body)
	}
	return records, start, end, false
}

// torn reports whether b can be the rest of one unit that a crash cut short: no
// longer than a unit, and without a unit in it. Records cannot imitate a unit,
// because no client knows the salt.
func (s *salt) torn(b []byte) bool {
	if len(b) > unitHead+maxUnit {
		return false
	}
	for at := 1; ; at++ {
		next := bytes.Index(b[min(at, len(b)):], s[:])
		if next < 0 {
			return true
		}
		at += next
		if _, ok := s.unit(b[at:]); ok {
			return false
		}
	}
}
