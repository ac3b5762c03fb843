package exports

import (
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"strconv"
	"strings"
)

// An FSID identifies an export instead of its path. The zero value means none.
type FSID struct {
	kind   fsidKind
	number uint32
	uuid   [16]byte
}

type fsidKind uint8

const (
	fsidNone fsidKind = iota
	fsidNumber
	fsidUUID
)

// ParseFSID parses a number (decimal, or with a prefix 0x or 0 as in C), "root", which is 0, or
// a UUID with 32 hexadecimal digits and any hyphens and colons between them.
func ParseFSID(word string) (f FSID, ok bool) {
	if word == "root" {
		word = "0"
	}
	if !strings.Contains(word, "_") { // which Go accepts and C does not
		if n, err := strconv.ParseUint(word, 0, 32); err == nil {
			return FSID{kind: fsidNumber, number: uint32(n)}, true
		}
	}
	digits := strings.NewReplacer("-", "", ":", "").Replace(word)
	f.kind = fsidUUID
	n, err := hex.Decode(f.uuid[:], []byte(digits[:min(len(digits), 2*len(f.uuid)+1)]))
	if err != nil || n != len(f.uuid) {
		return FSID{}, false
	}
	return f, true
}

// Set reports whether f is not the zero value.
func (f FSID) Set() bool { return f.kind != fsidNone }

// String returns f in exports(5) syntax; empty for none.
func (f FSID) String() string {
	switch f.kind {
	case fsidNumber:
		return strconv.FormatUint(uint64(f.number), 10)
	case fsidUUID:
		x := hex.EncodeToString(f.uuid[:])
		return strings.Join([]string{x[:8], x[8:12], x[12:16], x[16:20], x[20:]}, "-")
	default:
		return ""
	}
}

// ID returns f's number in file handles; 0 for none.
func (f FSID) ID() uint32 {
	if !f.Set() {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte("fsid=" + f.String())) // never fails
	return max(h.Sum32(), 1)
}

// Attr returns the fsid in file attributes, as in knfsd: the number, or the two halves of the
// UUID combined.
func (f FSID) Attr() uint64 {
	if f.kind == fsidUUID {
		return binary.BigEndian.Uint64(f.uuid[:]) ^ binary.BigEndian.Uint64(f.uuid[8:])
	}
	return uint64(f.number)
}
