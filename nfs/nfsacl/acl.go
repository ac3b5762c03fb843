package nfsacl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// errEntries reports an overlong list, or an array whose length differs from
// its count.
var errEntries = errors.New("nfsacl: wrong number of entries")

// An Entry grants rights to the users that Tag and ID name.
type Entry struct {
	Tag  Tag
	ID   uint32 // with User and Group; otherwise 0
	Perm uint32 // read 4, write 2, execute 1
}

// An ACL is a list in POSIX form: sorted by tag and id, without a mask that
// only repeats the owning group's permissions. It has no entries or at least
// three.
type ACL []Entry

// An owner holds the ids that the wire form carries in the entries of the owner
// and the owning group.
type owner struct{ uid, gid uint32 }

// appendTo appends a list's wire form to b; if entries is false, only the
// count. flag is defaultFlag for a default list.
func (a ACL) appendTo(b []byte, entries bool, flag Tag, of owner) []byte {
	count := len(a)
	if a.isMinimal() {
		count++
	}
	b = xdr.AppendUint32(b, uint32(count))
	if !entries {
		return xdr.AppendUint32(b, 0)
	}
	b = xdr.AppendUint32(b, uint32(count))
	for _, e := range a {
		b = e.appendTo(b, flag, of)
		if e.Tag == GroupObj && a.isMinimal() {
			b = Entry{Tag: Mask, Perm: e.Perm}.appendTo(b, flag, of)
		}
	}
	return b
}

func (e Entry) appendTo(b []byte, flag Tag, of owner) []byte {
	id := e.ID
	switch e.Tag {
	case UserObj:
		id = of.uid
	case GroupObj:
		id = of.gid
	}
	b = xdr.AppendUint32(b, uint32(e.Tag|flag))
	b = xdr.AppendUint32(b, id)
	return xdr.AppendUint32(b, e.Perm&permBits)
}

// decodeList reads a list. If entries is false, it ignores the array's entries.
func (a *ACL) decodeList(r *xdr.Reader, entries bool) {
	*a = nil
	count, n := r.Uint32(), r.Uint32()
	if r.Err() == nil && (count > MaxEntries || n > count || entries && n != count) {
		r.Fail(fmt.Errorf("%w: %d in an array, count %d", errEntries, n, count))
	}
	array := r.Fixed(int(n) * entryLen)
	if r.Err() != nil || !entries || n == 0 {
		return
	}
	list := make(ACL, n)
	in := xdr.NewReader(array)
	for i := range list {
		if err := list[i].decodeEntry(&in); err != nil {
			r.Fail(err)
			return
		}
	}
	*a = list.toPOSIX()
}

// decodeEntry reads an entry. Solaris sets undefined bits in a mask, which
// decodeEntry clears. In other entries such bits are an error, as in Linux.
func (e *Entry) decodeEntry(r *xdr.Reader) error {
	e.Tag, e.ID, e.Perm = Tag(r.Uint32())&^defaultFlag, r.Uint32(), r.Uint32()
	switch e.Tag {
	case Mask:
		e.Perm &= permBits
	case UserObj, User, GroupObj, Group, Other:
	default:
		return fmt.Errorf("%w: tag %#x of an ACL entry", xdr.ErrValue, uint32(e.Tag))
	}
	if e.Perm&^permBits != 0 {
		return fmt.Errorf("%w: rights %#x of an ACL entry", xdr.ErrValue, e.Perm)
	}
	if !e.Tag.hasID() {
		e.ID = 0
	}
	return nil
}

// toPOSIX converts a decoded list, whose entries are in any order, to POSIX
// form.
func (a ACL) toPOSIX() ACL {
	slices.SortFunc(a, func(x, y Entry) int { return cmp.Or(cmp.Compare(x.Tag, y.Tag), cmp.Compare(x.ID, y.ID)) })
	if len(a) == 4 && a[2].Tag == Mask && a[2].Perm == a[1].Perm {
		if less := append(a[:2:2], a[3]); less.isMinimal() {
			return less
		}
	}
	return a
}

// isMinimal reports whether a sorted list is equivalent to a mode.
func (a ACL) isMinimal() bool {
	return len(a) == 3 && a[0].Tag == UserObj && a[1].Tag == GroupObj && a[2].Tag == Other
}
