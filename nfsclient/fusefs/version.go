package fusefs

import (
	"math"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// NFSv3 has no change attribute. A delegation.Stamp takes its place: the ctime,
// which no client can set, with the mtime and the size for servers whose ctime
// is coarse or wrong. Every cache of this package, of data, names, rights and
// attributes, compares Stamps and no single attribute: a file that was
// rewritten in place with its old size and mtime is another version.

// noStamp is the Stamp for unknown attributes. No object has it.
var noStamp = delegation.Stamp{CTime: math.MinInt64}

// attrStamp returns the part of the attributes that distinguishes an object's
// states.
func attrStamp(a *nfs3.Attr) delegation.Stamp {
	return delegation.Stamp{Size: a.Size, MTime: unixNanoseconds(a.Mtime), CTime: unixNanoseconds(a.Ctime)}
}

// preOpStamp returns the Stamp of the attributes before our change, or noStamp if
// the reply has none.
func preOpStamp(a *nfs3.PreOpAttr) delegation.Stamp {
	if !a.OK {
		return noStamp
	}
	return delegation.Stamp{Size: a.Size, MTime: unixNanoseconds(a.Mtime), CTime: unixNanoseconds(a.Ctime)}
}

// writtenStampLocked returns the Stamp of n's attributes, with the size that our
// writes give the file.
func (n *node) writtenStampLocked() delegation.Stamp {
	s := attrStamp(&n.attr)
	if n.attr.Type == nfs3.TypeReg {
		s.Size = max(s.Size, n.writtenEnd)
	}
	return s
}

// unixNanoseconds returns t in nanoseconds since 1970.
func unixNanoseconds(t nfs3.Time) int64 { return int64(t.Sec)*1e9 + int64(t.Nsec) }

// serverStamp returns the Stamp of the attributes that the server sent last, or
// noStamp if they have changed since.
func (n *node) serverStamp() delegation.Stamp {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.serverStampLocked()
}

func (n *node) serverStampLocked() delegation.Stamp {
	if !n.known || n.freshUntil == 0 {
		return noStamp
	}
	return attrStamp(&n.attr)
}
