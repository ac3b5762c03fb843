package nfs4acl

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// forEachList calls check with every list of the given numbers of named users and
// groups, whose entries have the given permissions. A mask of 8 means none.
func forEachList(users, groups int, perms, masks []uint8, check func(a vfs.ACL)) {
	a := vfs.ACL{{Tag: vfs.ACLUserObj}}
	for i := range users {
		a = append(a, vfs.ACLEntry{Tag: vfs.ACLUser, ID: uint32(user1 + i)})
	}
	a = append(a, vfs.ACLEntry{Tag: vfs.ACLGroupObj})
	for i := range groups {
		a = append(a, vfs.ACLEntry{Tag: vfs.ACLGroup, ID: uint32(group1 + i)})
	}
	other := len(a)
	var fill func(i int)
	fill = func(i int) {
		if i < other {
			for _, p := range perms {
				a[i].Perm = p
				fill(i + 1)
			}
			return
		}
		for _, o := range perms {
			for _, m := range masks {
				whole := a[:other:other]
				if m <= permAll {
					whole = append(whole, vfs.ACLEntry{Tag: vfs.ACLMask, Perm: m})
				}
				check(append(whole, vfs.ACLEntry{Tag: vfs.ACLOther, Perm: o}))
			}
		}
	}
	fill(0)
}

// forSmallLists calls check with lists of up to 4 named entries: of up to 2 with all
// permissions, and of more with some. Permissions are independent of each other, so
// a few masks suffice.
func forSmallLists(check func(a vfs.ACL)) {
	every := []uint8{0, 1, 2, 3, 4, 5, 6, 7}
	for named := range 5 {
		for users := range named + 1 {
			perms, masks := every, every
			switch {
			case named == 0:
				masks = append(masks, 8)
			case named == 2:
				masks = []uint8{2, 5, 7}
			case named > 2:
				perms, masks = []uint8{0, 5, 6}, []uint8{4, 7}
			}
			forEachList(users, named-users, perms, masks, check)
		}
	}
}

// effectiveACL returns the list that grants the same permissions without those
// that the mask removes, and with the minimum mask. It is stored in a's memory.
func effectiveACL(a vfs.ACL) vfs.ACL {
	s := summarizeACL(a)
	named := false
	out := a[:0]
	for _, e := range a {
		switch e.Tag {
		case vfs.ACLUser, vfs.ACLGroup:
			named = true
			e.Perm &= s.mask
		case vfs.ACLGroupObj:
			e.Perm &= s.mask
		case vfs.ACLMask:
			if !named {
				continue
			}
			e.Perm = s.users | s.group | s.groups
		}
		out = append(out, e)
	}
	return out
}

// TestRoundTrip checks that each POSIX list of up to 4 named entries is the same
// after it was read and set, with the mask applied, and that the entries in
// between mean the same (R8881-6.2.1-1, R8881-6.2.1.5-1).
func TestRoundTrip(t *testing.T) {
	n, all := 0, allSubjects()
	forSmallLists(func(a vfs.ACL) {
		n++
		isDir := n%2 == 0
		aces := FromPOSIX(a, nil, isDir)
		for i := n % 7; i < len(all); i += 7 { // each list is seen by some
			s := &all[i]
			allowed, _ := s.evaluateEntries(aces, false)
			if permOf(allowed, isDir) != s.evaluateOnHost(a) {
				t.Fatalf("%+v: %+v has other rights by %+v", a, *s, aces)
			}
			if allowed&always != always {
				t.Fatalf("%+v: %+v lacks what hosts grant", a, *s)
			}
		}
		access, def, err := ToPOSIX(aces, isDir)
		want := effectiveACL(a)
		if err != nil || def != nil || !equalACLs(access, want) {
			t.Fatalf("%+v came back as %+v, %v", want, access, err)
		}
	})
	t.Log(n, "lists")
}

func equalACLs(a, b vfs.ACL) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestRoundTripDefault checks that a default list is the same after it was read
// and set together with the directory's own list.
func TestRoundTripDefault(t *testing.T) {
	forEachList(1, 1, []uint8{0, 2, 5}, []uint8{7}, func(a vfs.ACL) {
		want := effectiveACL(append(vfs.ACL(nil), a...))
		forEachList(0, 1, []uint8{1, 6}, []uint8{7}, func(b vfs.ACL) {
			wantDef := effectiveACL(append(vfs.ACL(nil), b...))
			access, def, err := ToPOSIX(FromPOSIX(a, b, true), true)
			require.NoError(t, err)
			require.Equal(t, want, access)
			require.Equal(t, wantDef, def)
		})
	})
}

// TestFromPOSIX compares with the entries that Linux's server shows
// (R8881-6.2.1.3.1-5).
func TestFromPOSIX(t *testing.T) {
	access := vfs.ACL{
		{Tag: vfs.ACLUserObj, Perm: 6},
		{Tag: vfs.ACLUser, ID: user1, Perm: 7},
		{Tag: vfs.ACLGroupObj, Perm: 4},
		{Tag: vfs.ACLGroup, ID: group1, Perm: 2},
		{Tag: vfs.ACLMask, Perm: 6},
		{Tag: vfs.ACLOther, Perm: 1},
	}
	def := vfs.ModeACL(0o750)
	const base, owner = 0x20080, 0x40100 // READ_ACL, READ_ATTRIBUTES; WRITE_ACL, WRITE_ATTRIBUTES
	const sync = 0x100000
	want := []ACE{
		{1, 0, 0x20, Owner, 0},
		{0, 0, 0x47 | base | owner | sync, Owner, 0},
		{1, 0, 0x20, User, user1},
		{0, 0, 0x47 | base | sync, User, user1},
		{0, 0, 0x01 | base | sync, OwnerGroup, 0},
		{0, 0x40, 0x46 | base | sync, Group, group1},
		{1, 0, 0x20, OwnerGroup, 0},
		{1, 0x40, 0x20, Group, group1},
		{0, 0, 0x20 | base | sync, Everyone, 0},
		{0, 0x0b, 0x67 | base | owner | sync, Owner, 0},
		{0, 0x0b, 0x21 | base | sync, OwnerGroup, 0},
		{0, 0x0b, base | sync, Everyone, 0},
	}
	assert.Equal(t, want, FromPOSIX(access, def, true))
	assert.EqualValues(t, 0x26|base|owner|sync, FromPOSIX(vfs.ModeACL(0o300), nil, false)[0].Mask, "DELETE_CHILD is of directories")
}

// testEntries returns entries that apply to everyone whom a list can name.
func testEntries(masks ...uint32) (all []ACE) {
	for _, typ := range []uint32{nfs4.ACEAllow, nfs4.ACEDeny} {
		for _, mask := range masks {
			all = append(
				all, ACE{typ, 0, mask, Owner, 0}, ACE{typ, 0, mask, OwnerGroup, 0}, ACE{typ, 0, mask, Everyone, 0},
				ACE{typ, 0, mask, User, user1}, ACE{typ, 0, mask, User, user2},
				ACE{typ, nfs4.ACEIdentifierGroup, mask, Group, group1}, ACE{typ, nfs4.ACEIdentifierGroup, mask, Group, group2},
			)
		}
	}
	return all
}

// TestNeverMore checks that no user gets a right from the stored list that the
// entries do not grant, for all lists of up to 4 entries of one right, and for
// longer ones of several rights and flags (R8881-6.2.1-1, R8881-6.2.1-2,
// R8881-6.2.1.5-1).
func TestNeverMore(t *testing.T) {
	all := allSubjects()
	letters := testEntries(nfs4.ACEReadData)
	aces := make([]ACE, 0, 4)
	var extend func()
	extend = func() {
		access, _, err := ToPOSIX(aces, false)
		require.NoError(t, err)
		if more := excessRights(aces, access, false, all); more != "" {
			t.Fatal(more)
		}
		if len(aces) == cap(aces) {
			return
		}
		for _, e := range letters {
			aces = append(aces, e)
			extend()
			aces = aces[:len(aces)-1]
		}
	}
	extend()

	rng := rand.New(rand.NewPCG(1, 2))
	letters = testEntries(1, 2, 4, 6, 0x20, 0x21, 0x40, 0x46, 0x47, 0x67)
	for range 5000 {
		aces := make([]ACE, 1+rng.IntN(12))
		isDir := rng.IntN(2) == 0
		for i := range aces {
			aces[i] = letters[rng.IntN(len(letters))]
			if isDir {
				aces[i].Flag |= [...]uint32{0, inherits, inDefault}[rng.IntN(3)]
			}
		}
		access, def, err := ToPOSIX(aces, isDir)
		require.NoError(t, err)
		if more := excessRights(aces, access, isDir, all); more != "" {
			t.Fatal(more)
		}
		if more := excessInherited(aces, access, def, isDir, all); def != nil && more != "" {
			t.Fatal(more)
		}
	}
}

// TestToPOSIX checks lists whose stored form the draft of the mapping gives.
//
// R8881-6.2.1.3.1-2, R8881-6.2.1.3.1-3, R8881-6.2.1.4.1-2, R8881-6.3.2-1,
// R8881-6.4.1.2-1.
func TestToPOSIX(t *testing.T) {
	allow := func(k Kind, id, mask uint32) ACE { return ACE{nfs4.ACEAllow, 0, mask, k, id} }
	deny := func(k Kind, id, mask uint32) ACE { return ACE{nfs4.ACEDeny, 0, mask, k, id} }
	with := func(e ACE, flag uint32) ACE { e.Flag = flag; return e }
	u := func(id uint32, perm uint8) vfs.ACLEntry { return vfs.ACLEntry{Tag: vfs.ACLUser, ID: id, Perm: perm} }
	plain := func(owner, group, other uint8) vfs.ACL {
		return vfs.ACL{{Tag: vfs.ACLUserObj, Perm: owner}, {Tag: vfs.ACLGroupObj, Perm: group}, {Tag: vfs.ACLOther, Perm: other}}
	}
	named := func(owner uint8, user vfs.ACLEntry, group, mask, other uint8) vfs.ACL {
		return vfs.ACL{{Tag: vfs.ACLUserObj, Perm: owner}, user, {Tag: vfs.ACLGroupObj, Perm: group}, {Tag: vfs.ACLMask, Perm: mask}, {Tag: vfs.ACLOther, Perm: other}}
	}
	const r, w, x = nfs4.ACEReadData, nfs4.ACEWriteData | nfs4.ACEAppendData, nfs4.ACEExecute
	for what, tt := range map[string]struct {
		aces        []ACE
		isDir       bool
		access, def vfs.ACL
	}{
		"nothing":                            {nil, false, plain(0, 0, 0), nil},
		"everyone includes owner and group":  {[]ACE{allow(Everyone, 0, r|w)}, false, plain(6, 6, 6), nil},
		"a denial before counts":             {[]ACE{deny(Owner, 0, r), allow(Everyone, 0, r)}, false, plain(0, 4, 4), nil},
		"a denial behind does not":           {[]ACE{allow(Owner, 0, r), deny(Everyone, 0, r)}, false, plain(4, 0, 0), nil},
		"execute is not read":                {[]ACE{allow(Owner, 0, x)}, false, plain(1, 0, 0), nil},
		"append alone is nothing":            {[]ACE{allow(Everyone, 0, nfs4.ACEAppendData)}, false, plain(0, 0, 0), nil},
		"write data alone is nothing":        {[]ACE{allow(Everyone, 0, nfs4.ACEWriteData)}, false, plain(0, 0, 0), nil},
		"directories: without DELETE_CHILD":  {[]ACE{allow(Everyone, 0, r|w)}, true, plain(4, 4, 4), nil},
		"directories: with DELETE_CHILD":     {[]ACE{allow(Everyone, 0, w|nfs4.ACEDeleteChild)}, true, plain(2, 2, 2), nil},
		"files: DELETE_CHILD means nothing":  {[]ACE{deny(Everyone, 0, nfs4.ACEDeleteChild), allow(Everyone, 0, w)}, false, plain(2, 2, 2), nil},
		"a user":                             {[]ACE{allow(Owner, 0, r|w), allow(User, 7, r), allow(Everyone, 0, r)}, false, named(6, u(7, 4), 4, 4, 4), nil},
		"a user gets what everyone got":      {[]ACE{allow(Everyone, 0, r), allow(User, 7, w)}, false, named(4, u(7, 6), 4, 6, 4), nil},
		"the user may be the owner":          {[]ACE{deny(User, 7, w), allow(Everyone, 0, r|w)}, false, named(4, u(7, 4), 6, 6, 6), nil},
		"a user may be in the group":         {[]ACE{deny(OwnerGroup, 0, w), allow(User, 7, r|w)}, false, named(0, u(7, 4), 0, 4, 0), nil},
		"GROUP@ is a group whatever it says": {[]ACE{with(allow(OwnerGroup, 0, r), nfs4.ACEIdentifierGroup)}, false, plain(0, 4, 0), nil},
		"INHERITED_ACE means nothing":        {[]ACE{with(allow(Owner, 0, r), nfs4.ACEInherited)}, false, plain(4, 0, 0), nil},
		"reading attributes is granted":      {[]ACE{allow(Everyone, 0, always), deny(Everyone, 0, always)}, false, plain(0, 0, 0), nil},
		"owners may change the list":         {[]ACE{deny(Everyone, 0, byOwner|nfs4.ACEReadACL|nfs4.ACEDelete)}, false, plain(0, 0, 0), nil},
		"inherited, and its own":             {[]ACE{with(allow(Everyone, 0, r), inherits)}, true, plain(4, 4, 4), plain(4, 4, 4)},
		"inherited alone":                    {[]ACE{with(allow(Everyone, 0, r), inDefault)}, true, plain(0, 0, 0), plain(4, 4, 4)},
		"inherited by a user, completed": {
			[]ACE{allow(Owner, 0, r|x), allow(OwnerGroup, 0, x), with(allow(User, 7, r), inDefault)}, true, plain(5, 1, 0), named(5, u(7, 4), 1, 5, 0),
		},
		"a user who may own new objects": {
			[]ACE{allow(Owner, 0, r|x), with(deny(User, 7, r), inDefault)}, true, plain(5, 0, 0), named(1, u(7, 0), 0, 0, 0),
		},
	} {
		access, def, err := ToPOSIX(tt.aces, tt.isDir)
		require.NoError(t, err, what)
		assert.Equal(t, tt.access, access, what)
		assert.Equal(t, tt.def, def, what)
	}
}

// TestUnsupported checks what a POSIX list cannot represent.
//
// R8881-6.2.1-2, R8881-6.2.1-4, R8881-6.2.1.2-2, R8881-6.2.1.4-1,
// R8881-6.2.1.4.1-1, R8881-6.2.1.4.1-3.
func TestUnsupported(t *testing.T) {
	for what, tt := range map[string]struct {
		e     ACE
		isDir bool
	}{
		"audit":                        {ACE{Type: nfs4.ACEAudit, Kind: Everyone}, true},
		"alarm":                        {ACE{Type: nfs4.ACEAlarm, Kind: Everyone}, false},
		"an undefined type":            {ACE{Type: 4}, false},
		"inherited by files":           {ACE{Flag: nfs4.ACEFileInherit}, true},
		"inherited by directories":     {ACE{Flag: nfs4.ACEDirectoryInherit}, true},
		"inherited once":               {ACE{Flag: inherits | nfs4.ACENoPropagateInherit}, true},
		"inherited only, by nothing":   {ACE{Flag: nfs4.ACEInheritOnly}, true},
		"inherited from a file":        {ACE{Flag: inherits}, false},
		"inherited only, from a file":  {ACE{Flag: inDefault}, false},
		"a flag of audit":              {ACE{Flag: nfs4.ACESuccessfulAccess}, false},
		"another flag of audit":        {ACE{Flag: nfs4.ACEFailedAccess}, false},
		"an undefined flag":            {ACE{Flag: 0x100}, false},
		"attributes kept from all":     {ACE{Type: nfs4.ACEDeny, Mask: nfs4.ACEReadAttributes, Kind: Everyone}, false},
		"attributes kept from a user":  {ACE{Type: nfs4.ACEDeny, Mask: nfs4.ACEReadAttributes, Kind: User, ID: 1}, false},
		"attributes kept from a group": {ACE{Type: nfs4.ACEDeny, Mask: nfs4.ACEReadAttributes, Kind: OwnerGroup}, false},
		"attributes kept from an heir": {ACE{Type: nfs4.ACEDeny, Flag: inDefault, Mask: nfs4.ACEReadAttributes, Kind: Owner}, true},
	} {
		_, _, err := ToPOSIX([]ACE{{Mask: nfs4.ACEReadData, Kind: Everyone}, tt.e}, tt.isDir)
		assert.ErrorIs(t, err, ErrUnsupported, what)
	}
}

// TestManyEntries checks that the time for a list grows with its length, and not
// with its square: it would take minutes.
func TestManyEntries(t *testing.T) {
	const n = 1 << 16
	aces := make([]ACE, 0, 2*n)
	for i := range uint32(n) {
		aces = append(aces, ACE{Mask: nfs4.ACEReadData, Kind: User, ID: i}, ACE{Type: nfs4.ACEDeny, Mask: nfs4.ACEExecute, Kind: Group, ID: i})
	}
	access, _, err := ToPOSIX(aces, false)
	require.NoError(t, err)
	assert.Len(t, access, 2*n+4)
	assert.Len(t, FromPOSIX(access, nil, false), 2*n+4)
}

// FuzzToPOSIX checks that the stored lists of any entries grant no more than the
// entries, and stay the same when they are read and set.
func FuzzToPOSIX(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(encodeACEs(FromPOSIX(vfs.ModeACL(0o754), nil, false)), false)
	f.Add(encodeACEs(FromPOSIX(vfs.ModeACL(0o754), vfs.ModeACL(0o123), true)), true)
	all := allSubjects()
	f.Fuzz(func(t *testing.T, b []byte, isDir bool) {
		var aces []ACE
		for ; len(b) >= wireLen && len(aces) < 64; b = b[wireLen:] {
			aces = append(aces, ACE{
				uint32(b[0]), uint32(b[1]), binary.BigEndian.Uint32(b[2:]), Kind(b[6] % 5), uint32(b[7] % 16),
			})
		}
		access, def, err := ToPOSIX(aces, isDir)
		if err != nil {
			return
		}
		require.Empty(t, excessRights(aces, access, isDir, all))
		if def != nil {
			require.Empty(t, excessInherited(aces, access, def, isDir, all))
		}
		again, againDef, err := ToPOSIX(FromPOSIX(access, def, isDir), isDir)
		require.NoError(t, err)
		require.Equal(t, access, again)
		require.Equal(t, def, againDef)
	})
}

// wireLen is the length in bytes of an entry for FuzzToPOSIX.
const wireLen = 8

func encodeACEs(aces []ACE) (b []byte) {
	for _, e := range aces {
		b = binary.BigEndian.AppendUint32(append(b, byte(e.Type), byte(e.Flag)), e.Mask)
		b = append(b, byte(e.Kind), byte(e.ID))
	}
	return b
}
