package krb5

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/gss"
)

// keytabVersion is that of the format with numbers in network byte order, which
// all current implementations write.
const keytabVersion = 0x0502

// A keytabEntry is a key of a service. The value aliases the file.
type keytabEntry struct {
	principal gss.Principal
	kvno      uint32
	enctype   Enctype
	value     []byte
}

// parseKeytab returns the entries of a keytab:
//
//	version (2), then for each entry
//	size (4) | components (2) | realm | components | name type (4) |
//	time (4) | kvno (1) | enctype (2) | key | kvno (4), optional
//
// Strings and keys have a length of two bytes in front. A negative size is that
// of a hole, and a size of 0 the end.
func parseKeytab(b []byte) ([]keytabEntry, error) {
	if len(b) < 2 || binary.BigEndian.Uint16(b) != keytabVersion {
		return nil, fmt.Errorf("not a keytab of version %#04x", keytabVersion)
	}
	var entries []keytabEntry
	total := len(b)
	for b = b[2:]; len(b) > 0; {
		at := total - len(b)
		if len(b) < 4 {
			return nil, fmt.Errorf("cut off at byte %d", at)
		}
		size := int64(int32(binary.BigEndian.Uint32(b)))
		if size == 0 {
			break
		}
		b = b[4:]
		if max(size, -size) > int64(len(b)) {
			return nil, fmt.Errorf("the entry at byte %d is cut off", at)
		}
		if size > 0 {
			e, ok := parseKeytabEntry(b[:size])
			if !ok {
				return nil, fmt.Errorf("the entry at byte %d is malformed", at)
			}
			entries = append(entries, e)
		}
		b = b[max(size, -size):]
	}
	return entries, nil
}

// A keytabReader takes an entry apart; after the first missing byte it returns
// zeros, and bad is set.
type keytabReader struct {
	b   []byte
	bad bool
}

func (r *keytabReader) take(n int) []byte {
	if len(r.b) < n {
		r.b, r.bad = nil, true
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *keytabReader) uint16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }

func (r *keytabReader) counted() []byte { return r.take(int(r.uint16())) }

func parseKeytabEntry(b []byte) (e keytabEntry, ok bool) {
	r := keytabReader{b: b}
	components := int(r.uint16())
	e.principal.Realm = string(r.counted())
	for range components {
		if r.bad {
			return e, false
		}
		e.principal.Name = append(e.principal.Name, string(r.counted()))
	}
	r.take(4 + 4) // name type, time
	e.kvno = uint32(r.take(1)[0])
	e.enctype = Enctype(int16(r.uint16()))
	e.value = r.counted()
	if !r.bad && len(r.b) >= 4 {
		if long := binary.BigEndian.Uint32(r.b); long != 0 { // zeros fill up entries that have replaced longer ones
			e.kvno = long
		}
	}
	return e, !r.bad && components > 0
}
