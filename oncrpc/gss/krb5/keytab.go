package krb5

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// keytabVersion is the version with numbers in network byte order, which all current
// implementations write.
const keytabVersion = 0x0502

// A keytabEntry is a service's key. The value aliases the file.
type keytabEntry struct {
	principal gss.Principal
	kvno      uint32
	enctype   Enctype
	value     []byte
}

// parseKeytab returns a keytab's entries:
//
//	version (2), then for each entry
//	size (4) | components (2) | realm | components | name type (4) |
//	time (4) | kvno (1) | enctype (2) | key | kvno (4), optional
//
// A two-byte length precedes each string and key. A negative size means a hole, and size
// 0 the end.
func parseKeytab(b []byte) ([]keytabEntry, error) {
	if len(b) < 2 || binary.BigEndian.Uint16(b) != keytabVersion {
		return nil, fmt.Errorf("not a version %#04x keytab", keytabVersion)
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

// A keytabReader parses an entry; after the first missing byte it returns zeros, and
// truncated is set.
type keytabReader struct {
	b         []byte
	truncated bool
}

func (r *keytabReader) readBytes(n int) []byte {
	if len(r.b) < n {
		r.b, r.truncated = nil, true
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *keytabReader) readUint16() uint16 { return binary.BigEndian.Uint16(r.readBytes(2)) }

func (r *keytabReader) readCounted() []byte { return r.readBytes(int(r.readUint16())) }

func parseKeytabEntry(b []byte) (e keytabEntry, ok bool) {
	r := keytabReader{b: b}
	components := int(r.readUint16())
	e.principal.Realm = string(r.readCounted())
	for range components {
		if r.truncated {
			return e, false
		}
		e.principal.Name = append(e.principal.Name, string(r.readCounted()))
	}
	r.readBytes(4 + 4) // name type, time
	e.kvno = uint32(r.readBytes(1)[0])
	e.enctype = Enctype(int16(r.readUint16()))
	e.value = r.readCounted()
	if !r.truncated && len(r.b) >= 4 {
		if long := binary.BigEndian.Uint32(r.b); long != 0 { // zeros pad entries that replaced longer ones
			e.kvno = long
		}
	}
	return e, !r.truncated && components > 0
}
