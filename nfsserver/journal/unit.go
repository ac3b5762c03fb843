package journal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

const (
	unitHeadLen   = 16      // in bytes, before a body
	recordHeadLen = 4       // in bytes, before a record
	maxBodyLen    = 1 << 20 // in bytes

	// MaxRecord is the maximum length in bytes of a record.
	MaxRecord = 1 << 16
)

// A salt begins every unit in a file, and the input of every checksum.
type salt [8]byte

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC32C over the salt and b.
func (s *salt) checksum(b ...[]byte) uint32 {
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
	b = binary.BigEndian.AppendUint32(b, s.checksum(length, body))
	return append(b, body...)
}

// readUnit returns the body of the unit at the start of b, if there is one.
func (s *salt) readUnit(b []byte) (body []byte, ok bool) {
	if len(b) < unitHeadLen || !bytes.HasPrefix(b, s[:]) {
		return nil, false
	}
	length, sum, rest := b[8:12], binary.BigEndian.Uint32(b[12:]), b[unitHeadLen:]
	n := binary.BigEndian.Uint32(length)
	if n == 0 || n > maxBodyLen || uint64(n) > uint64(len(rest)) || s.checksum(length, rest[:n]) != sum {
		return nil, false
	}
	return rest[:n], true
}

// splitRecords returns the records in a body, which alias it, or false if the body has another
// format.
func splitRecords(body []byte) (records [][]byte, ok bool) {
	for len(body) > 0 {
		if len(body) < recordHeadLen {
			return nil, false
		}
		n, rest := binary.BigEndian.Uint32(body), body[recordHeadLen:]
		if n > MaxRecord || uint64(n) > uint64(len(rest)) {
			return nil, false
		}
		records = append(records, rest[:n:n])
		body = rest[n:]
	}
	return records, true
}

// readUnits returns the records after a file's header, and the start and end of the last whole
// unit. If void is set, the bytes after that end are not a torn unit.
func (s *salt) readUnits(b []byte) (records [][]byte, start, end int, void bool) {
	for end < len(b) {
		body, ok := s.readUnit(b[end:])
		if !ok {
			return records, start, end, !s.isTorn(b[end:])
		}
		more, ok := splitRecords(body)
		if !ok {
			return nil, start, end, true // no Append wrote this
		}
		records = append(records, more...)
		start, end = end, end+unitHeadLen+len(body)
	}
	return records, start, end, false
}

// isTorn reports whether b could be a single unit truncated by a crash: no longer than a unit,
// and without a unit in it. Records cannot imitate a unit, because no client knows the salt.
func (s *salt) isTorn(b []byte) bool {
	if len(b) > unitHeadLen+maxBodyLen {
		return false
	}
	for at := 1; ; at++ {
		next := bytes.Index(b[min(at, len(b)):], s[:])
		if next < 0 {
			return true
		}
		at += next
		if _, ok := s.readUnit(b[at:]); ok {
			return false
		}
	}
}
