package nfs4server

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// randomChoices are bytes that decide which COMPOUNDs are sent: random ones, or the fuzzer's.
type randomChoices []byte

// nextBelow returns a number below n, which is at most 256. It returns 0 if no byte is left.
func (c *randomChoices) nextBelow(n int) int {
	if len(*c) == 0 {
		return 0
	}
	b := (*c)[0]
	*c = (*c)[1:]
	return int(b) % n
}

// nextUint64 returns any number.
func (c *randomChoices) nextUint64() (v uint64) {
	for range 8 {
		v = v<<8 | uint64(c.nextBelow(256))
	}
	return v
}

// pickOne returns an element from a list, which must not be empty and has at most 256 elements.
func pickOne[T any](c *randomChoices, list ...T) T { return list[c.nextBelow(len(list))] }

// An openedFile is a file that a random COMPOUND has opened.
type openedFile struct {
	fh nfs4.FH
	id nfs4.StateID
}

// randomCalls sends COMPOUNDs of two clients, by several users, to a server with an export below
// another one, read-only exports, and one that takes Kerberos alone. The operations fit
// what earlier ones have returned, so that many succeed.
type randomCalls struct {
	randomChoices
	t       testing.TB
	top     string // directory with the exports
	clients [2]*testServer
	users   []uint32

	dirs, handles []nfs4.FH
	files         []openedFile
	ids           []nfs4.StateID
	succeeded     map[nfs4.Op]int
}

// secret is the content of files that randomCalls' users may not read or change.
const secret = "SECRETSECRETSECRET"

// newRandomCalls starts the server.
func newRandomCalls(t testing.TB, input []byte) *randomCalls {
	w := &randomCalls{randomChoices: input, t: t, top: t.TempDir(), users: []uint32{4242, 4242, 0, 4243}, succeeded: make(map[nfs4.Op]int)}
	if uid := os.Geteuid(); uid != 0 {
		w.users = []uint32{uint32(uid)} // all callers are alike
	}
	w.makeFiles()
	krb5 := exports.Secure(exports.Rights{}, exports.FlavorKrb5)
	g := newTestServer(
		t, w.exportDir("x", exports.Options{Insecure: true}), w.exportDir("x/sub", exports.Options{Insecure: true, ReadOnly: true}),
		w.exportDir("y", exports.Options{Insecure: true, ReadOnly: true}), w.exportDir("z", exports.Options{Insecure: true, Sec: krb5}),
	)
	t.Cleanup(g.s.Close)
	g.partial = true
	g.cred = rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: w.users[0], GID: w.users[0]}
	h := *g
	h.peer = peerAt("198.51.100.66:55555")
	w.clients = [2]*testServer{g.connectAs("one"), h.connectAs("two")}
	w.dirs = w.lookupPaths("x", "x/deep", "x/sub", "y")
	w.handles = w.lookupPaths("x/secret", "x/sub/secret", "y/secret", "y/public")
	return w
}

// makeFiles makes the exported directories, one next to them, and the files.
func (w *randomCalls) makeFiles() {
	require.NoError(w.t, os.Chmod(w.top, 0o755))
	for _, d := range []string{"x", "x/deep", "x/sub", "x/sub/deep", "y", "z", "outside"} {
		require.NoError(w.t, os.Mkdir(filepath.Join(w.top, d), 0o777))
		require.NoError(w.t, os.Chmod(filepath.Join(w.top, d), 0o777))
	}
	for name, mode := range map[string]os.FileMode{
		"x/secret": 0o600, "x/sub/secret": 0o600, "y/secret": 0o600, "z/open": 0o666, "outside/open": 0o666, "y/public": 0o666,
	} {
		content := secret
		if name == "y/public" {
			content = "public"
		}
		require.NoError(w.t, os.WriteFile(filepath.Join(w.top, name), []byte(content), mode))
		require.NoError(w.t, os.Chmod(filepath.Join(w.top, name), mode))
	}
}

// exportDir exports a directory.
func (w *randomCalls) exportDir(dir string, o exports.Options) exportset.Export {
	fs, err := posix.Open(filepath.Join(w.top, dir), posix.Options{StateDir: w.t.TempDir()})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, fs.Close()) })
	return exportset.Export{Path: "/" + dir, FS: fs, Clients: exports.Everyone(o)}
}

// lookupPaths returns objects' handles.
func (w *randomCalls) lookupPaths(paths ...string) (list []nfs4.FH) {
	for _, p := range paths {
		list = append(list, bytes.Clone(w.clients[0].lookupPath(strings.Split(p, "/")...)))
	}
	return list
}

// sendAll sends COMPOUNDs until all choices are made.
func (w *randomCalls) sendAll() {
	for len(w.randomChoices) > 0 && !w.t.Failed() {
		c := pickOne(&w.randomChoices, w.clients[:]...)
		c.cred.UID = pickOne(&w.randomChoices, w.users...)
		c.cred.GID = c.cred.UID
		steps := w.nextCompound()
		status, n := c.sendSteps(steps...)
		if status != nfs4.OK {
			n--
		}
		w.learnResults(steps[:max(n, 0)])
		c.s.state.Sweep()
		if w.t.Failed() {
			w.t.Log(describeSteps(steps))
		}
	}
}

// describeSteps returns operations with their arguments.
func describeSteps(steps []step) string {
	var list []string
	for _, s := range steps {
		list = append(list, fmt.Sprintf("%s %+v", s.op, s.args))
	}
	return strings.Join(list, "\n")
}

// learnResults keeps what the operations that have succeeded returned, for the next ones.
func (w *randomCalls) learnResults(steps []step) {
	const maxHandles, maxFiles, maxIDs = 200, 60, 100
	for i, s := range steps {
		w.succeeded[s.op]++
		switch res := s.res.(type) {
		case *nfs4.HandleRes:
			w.handles = appendBounded(w.handles, bytes.Clone(res.Object), maxHandles)
		case *nfs4.OpenRes:
			w.ids = appendBounded(w.ids, res.StateID, maxIDs)
			if i+1 < len(steps) && steps[i+1].op == nfs4.OpGetFH {
				fh := bytes.Clone(steps[i+1].res.(*nfs4.HandleRes).Object)
				w.files = appendBounded(w.files, openedFile{fh, res.StateID}, maxFiles)
			}
		case *nfs4.LockRes:
			w.ids = appendBounded(w.ids, res.StateID, maxIDs)
		case *nfs4.ReadRes:
			assert.False(w.t, w.hasUserRights() && bytes.Contains(res.Data, []byte("SECRET")), "a secret was read")
		}
	}
}

// appendBounded appends v to a list, whose older half goes if it has become too long.
func appendBounded[T any](list []T, v T, most int) []T {
	if list = append(list, v); len(list) > most {
		list = list[most/2:]
	}
	return list
}

// hasUserRights reports whether the users have fewer rights than the server.
func (w *randomCalls) hasUserRights() bool { return len(w.users) > 1 }

// nextCompound returns operations: mostly such as a client would send, and sometimes any.
func (w *randomCalls) nextCompound() []step {
	getFH := step{nfs4.OpGetFH, &void, new(nfs4.HandleRes)}
	switch w.nextBelow(15) {
	case 0, 1, 2, 3:
		return []step{w.putDir(), w.stepWithOp(nfs4.OpOpen, nfs4.OpOpen, nfs4.OpCreate), getFH}
	case 4, 5, 6, 7:
		if len(w.files) > 0 {
			return w.useFile(pickOne(&w.randomChoices, w.files...))
		}
	case 8, 9:
		object := putStep(pickOne(&w.randomChoices, append(w.handles, w.dirs...)...))
		return []step{object, {nfs4.OpSaveFH, &void, newStatusRes()}, w.putDir(), w.stepWithOp(nfs4.OpLink, nfs4.OpRename, nfs4.OpCopy, nfs4.OpClone)}
	case 10:
		if len(w.files) > 0 {
			return w.copyFile(pickOne(&w.randomChoices, w.files...), pickOne(&w.randomChoices, w.files...))
		}
	case 11, 12:
		return []step{w.putDir(), w.stepWithOp(nfs4.OpRemove, nfs4.OpLookup, nfs4.OpLookupP), getFH}
	}
	if w.nextBelow(3) == 0 {
		return []step{w.putAny(), w.stepWithOp(nfs4.OpSecInfo, nfs4.OpSecInfoNoName, nfs4.OpLookupP, nfs4.OpRead, nfs4.OpLookup)}
	}
	steps := []step{pickOne(&w.randomChoices, putRootStep(), w.putAny(), w.putAny())}
	for range 1 + w.nextBelow(9) {
		steps = append(steps, w.nextStep())
	}
	return steps
}

// useFile returns operations on an open file, mostly with the open's stateid.
func (w *randomCalls) useFile(f openedFile) []step {
	steps := []step{putStep(f.fh)}
	for range 1 + w.nextBelow(3) {
		s := w.stepWithOp(
			nfs4.OpRead, nfs4.OpWrite, nfs4.OpLock, nfs4.OpLockU, nfs4.OpSetAttr, nfs4.OpClose, nfs4.OpOpenDowngrade, nfs4.OpAllocate, nfs4.OpDeallocate,
		)
		if w.nextBelow(3) > 0 {
			setStateID(s.args, w.maybeCurrentStateID(f.id))
		}
		steps = append(steps, s)
	}
	return steps
}

// maybeCurrentStateID returns a stateid, or the one that represents its last version.
func (w *randomCalls) maybeCurrentStateID(id nfs4.StateID) nfs4.StateID {
	if w.nextBelow(2) == 0 {
		id.SeqID = 0
	}
	return id
}

// setStateID puts an open's stateid into arguments.
func setStateID(args nfs4.Message, id nfs4.StateID) {
	switch a := args.(type) {
	case *nfs4.ReadArgs:
		a.StateID = id
	case *nfs4.WriteArgs:
		a.StateID = id
	case *nfs4.LockArgs:
		a.StateID, a.New = id, true
	case *nfs4.SetAttrArgs:
		a.StateID = id
	case *nfs4.CloseArgs:
		a.StateID = id
	case *nfs4.OpenDowngradeArgs:
		a.StateID = id
	case *nfs4.RangeArgs:
		a.StateID = id
	}
}

// copyFile returns operations that copy a part of an open file to another one.
func (w *randomCalls) copyFile(src, dst openedFile) []step {
	a := nfs4.CopyArgs{SrcStateID: w.maybeCurrentStateID(src.id), DstStateID: w.maybeCurrentStateID(dst.id), SrcOffset: w.nextOffset() % 20, DstOffset: w.nextOffset() % 20, Consecutive: true, Synchronous: true}
	return []step{putStep(src.fh), {nfs4.OpSaveFH, &void, newStatusRes()}, putStep(dst.fh), {nfs4.OpCopy, &a, new(nfs4.CopyRes)}}
}

func (w *randomCalls) putDir() step { return putStep(pickOne(&w.randomChoices, w.dirs...)) }

func (w *randomCalls) putAny() step {
	return step{nfs4.OpPutFH, &nfs4.HandleArgs{Object: w.nextHandle()}, newStatusRes()}
}

// nextHandle returns an object's handle, or any bytes.
func (w *randomCalls) nextHandle() nfs4.FH {
	if w.nextBelow(30) > 0 {
		return pickOne(&w.randomChoices, w.handles...)
	}
	b := make([]byte, w.nextBelow(64))
	for i := range b {
		b[i] = byte(w.nextBelow(256))
	}
	return b
}

func (w *randomCalls) nextName() []byte {
	return []byte(pickOne(&w.randomChoices, "x", "y", "z", "sub", "deep", "secret", "open", "public", "a", "b", "c", "d", "link", "..", ".", "outside", ""))
}

func (w *randomCalls) nextStateID() nfs4.StateID {
	switch w.nextBelow(6) {
	case 0:
		return nfs4.AnonymousStateID
	case 1:
		return nfs4.BypassStateID
	case 2:
		return nfs4.CurrentStateID
	}
	if len(w.ids) == 0 {
		return nfs4.StateID{}
	}
	return w.maybeCurrentStateID(pickOne(&w.randomChoices, w.ids...))
}

func (w *randomCalls) nextOffset() uint64 {
	switch w.nextBelow(5) {
	case 0:
		return w.nextUint64()
	case 1:
		return 1<<63 - 1
	}
	return uint64(w.nextBelow(40))
}

func (w *randomCalls) nextOwner() nfs4.StateOwner {
	return nfs4.StateOwner{Owner: []byte{byte('a' + w.nextBelow(3))}}
}

// nextAccess returns a share_access for an OPEN.
func (w *randomCalls) nextAccess() uint32 { return 1 + uint32(w.nextBelow(3)) }

func (w *randomCalls) nextAttrs() (a nfs4.Attrs) {
	if w.nextBelow(2) == 0 {
		a.Mask.Set(nfs4.AttrMode)
		a.Mode = pickOne(&w.randomChoices, uint32(0o777), 0o666, 0o4777, 0o1777, 0)
	}
	if w.nextBelow(3) == 0 {
		a.Mask.Set(nfs4.AttrSize)
		a.Size = w.nextOffset() % 1000
	}
	if w.nextBelow(6) == 0 {
		a.Mask.Set(nfs4.AttrOwner)
		a.Owner = []byte(pickOne(&w.randomChoices, "0", "4242", "1000"))
	}
	if w.nextBelow(6) == 0 {
		const all = 0x1f01ff
		a.Mask.Set(nfs4.AttrACL)
		a.ACL = nfs4.ACL{
			{Type: nfs4.ACEAllow, Mask: uint32(w.nextUint64()) & all, Who: []byte("EVERYONE@")},
			{Type: uint32(w.nextBelow(3)), Mask: uint32(w.nextUint64()) & all, Flag: uint32(w.nextBelow(16)), Who: []byte("4242")},
		}
	}
	return a
}

// nextOpenArgs returns arguments for an OPEN.
func (w *randomCalls) nextOpenArgs() *nfs4.OpenArgs {
	a := nfs4.OpenArgs{
		ShareAccess: w.nextAccess(), Owner: w.nextOwner(), How: nfs4.CreateMode(w.nextBelow(5)), Name: w.nextName(), StateID: w.nextStateID(),
		Claim: pickOne(&w.randomChoices, nfs4.ClaimNull, nfs4.ClaimNull, nfs4.Claim(w.nextBelow(7))),
	}
	if w.nextBelow(4) == 0 {
		a.ShareDeny = uint32(w.nextBelow(4))
	}
	if a.How != nfs4.NoCreate {
		a.Attrs = w.nextAttrs()
	}
	return &a
}

// nextStep returns an operation.
func (w *randomCalls) nextStep() step {
	switch w.nextBelow(8) {
	case 0:
		return putRootStep()
	case 1:
		return lookupStep(string(w.nextName()))
	case 2:
		return step{nfs4.OpGetFH, &void, new(nfs4.HandleRes)}
	case 3:
		return w.putAny()
	case 4:
		return step{pickOne(&w.randomChoices, nfs4.OpSaveFH, nfs4.OpRestoreFH), &void, newStatusRes()}
	}
	return w.stepWithOp(
		nfs4.OpLookup, nfs4.OpLookupP, nfs4.OpOpen, nfs4.OpOpen, nfs4.OpClose, nfs4.OpRead, nfs4.OpWrite, nfs4.OpLock, nfs4.OpLockU, nfs4.OpSetAttr,
		nfs4.OpRemove, nfs4.OpRename, nfs4.OpLink, nfs4.OpCreate, nfs4.OpCopy, nfs4.OpClone, nfs4.OpSecInfo, nfs4.OpSecInfoNoName, nfs4.OpAllocate,
		nfs4.OpDeallocate, nfs4.OpOpenDowngrade,
	)
}

// stepWithOp returns one of the given operations.
func (w *randomCalls) stepWithOp(ops ...nfs4.Op) step {
	switch op := pickOne(&w.randomChoices, ops...); op {
	case nfs4.OpLookup:
		return lookupStep(string(w.nextName()))
	case nfs4.OpLookupP:
		return step{op, &void, newStatusRes()}
	case nfs4.OpOpen:
		return step{op, w.nextOpenArgs(), new(nfs4.OpenRes)}
	case nfs4.OpClose:
		return step{op, &nfs4.CloseArgs{StateID: w.nextStateID()}, new(nfs4.StateIDRes)}
	case nfs4.OpRead:
		return step{op, &nfs4.ReadArgs{StateID: w.nextStateID(), Offset: w.nextOffset(), Count: 100}, new(nfs4.ReadRes)}
	case nfs4.OpWrite:
		return step{op, &nfs4.WriteArgs{StateID: w.nextStateID(), Offset: w.nextOffset() % 100, Data: []byte("hello")}, new(nfs4.WriteRes)}
	case nfs4.OpLock:
		return step{op, &nfs4.LockArgs{Type: nfs4.LockType(1 + w.nextBelow(4)), Offset: w.nextOffset(), Length: w.nextOffset(), New: w.nextBelow(2) == 0, StateID: w.nextStateID(), Owner: w.nextOwner()}, new(nfs4.LockRes)}
	case nfs4.OpLockU:
		return step{op, &nfs4.LockUArgs{Type: nfs4.LockRead, Offset: w.nextOffset(), Length: w.nextOffset(), StateID: w.nextStateID()}, new(nfs4.StateIDRes)}
	case nfs4.OpSetAttr:
		return step{op, &nfs4.SetAttrArgs{StateID: w.nextStateID(), Attrs: w.nextAttrs()}, new(nfs4.SetAttrRes)}
	case nfs4.OpRename:
		return step{op, &nfs4.RenameArgs{Old: w.nextName(), New: w.nextName()}, new(nfs4.RenameRes)}
	case nfs4.OpCreate:
		return step{op, &nfs4.CreateArgs{Type: nfs4.FileType(w.nextBelow(9)), LinkData: []byte("../outside/open"), Name: w.nextName(), Attrs: w.nextAttrs()}, new(nfs4.CreateRes)}
	case nfs4.OpCopy:
		a := nfs4.CopyArgs{SrcStateID: w.nextStateID(), DstStateID: w.nextStateID(), SrcOffset: w.nextOffset() % 20, DstOffset: w.nextOffset() % 20, Consecutive: true, Synchronous: w.nextBelow(2) == 0}
		return step{op, &a, new(nfs4.CopyRes)}
	case nfs4.OpClone:
		return step{op, &nfs4.CloneArgs{SrcStateID: w.nextStateID(), DstStateID: w.nextStateID()}, newStatusRes()}
	case nfs4.OpSecInfo:
		return step{op, &nfs4.NameArgs{Name: w.nextName()}, new(nfs4.SecInfoRes)}
	case nfs4.OpSecInfoNoName:
		return step{op, &nfs4.SecInfoNoNameArgs{Style: uint32(w.nextBelow(2))}, new(nfs4.SecInfoRes)}
	case nfs4.OpAllocate, nfs4.OpDeallocate:
		return step{op, &nfs4.RangeArgs{StateID: w.nextStateID(), Offset: w.nextOffset() % 1000, Length: w.nextOffset() % 1000}, newStatusRes()}
	case nfs4.OpOpenDowngrade:
		return step{op, &nfs4.OpenDowngradeArgs{StateID: w.nextStateID(), ShareAccess: w.nextAccess(), ShareDeny: uint32(w.nextBelow(4))}, new(nfs4.StateIDRes)}
	default: // REMOVE and LINK
		return step{op, &nfs4.NameArgs{Name: w.nextName()}, new(nfs4.ChangeRes)}
	}
}

// checkFiles checks that no call has changed, copied or moved what the users may not.
func (w *randomCalls) checkFiles() {
	if !w.hasUserRights() {
		return
	}
	for _, name := range []string{"y/secret", "x/sub/secret", "z/open", "outside/open"} {
		b, err := os.ReadFile(filepath.Join(w.top, name))
		require.NoError(w.t, err)
		assert.Equal(w.t, secret, string(b), name)
	}
	for _, dir := range []string{"x", "y"} {
		require.NoError(w.t, filepath.WalkDir(filepath.Join(w.top, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(b, []byte("SECRET")) {
				return err
			}
			info, err := d.Info()
			require.NoError(w.t, err)
			assert.Zero(w.t, info.Sys().(*syscall.Stat_t).Uid, path)
			assert.Equal(w.t, fs.FileMode(0o600), info.Mode(), path)
			return nil
		}))
	}
}

// openDescriptors returns the number of open descriptors for the exports' files.
func (w *randomCalls) openDescriptors() (n int) {
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(w.t, err)
	for _, d := range list {
		if target, err := os.Readlink("/proc/self/fd/" + d.Name()); err == nil && strings.HasPrefix(target, w.top) {
			n++
		}
	}
	return n
}

// testRandomCalls sends the COMPOUNDs that an input decides, ends the clients, and checks that
// nothing is left. It returns the number of times that each operation has succeeded.
func testRandomCalls(t testing.TB, input []byte) map[nfs4.Op]int {
	w := newRandomCalls(t, input)
	s, buffers, descriptors := w.clients[0].s, buf.Default.Out(), w.openDescriptors()
	w.sendAll()
	w.checkFiles()
	list, _ := s.Clients(len(w.clients))
	for _, c := range list {
		assert.Equal(t, nfs4.OK, s.Expire(c.ID))
	}
	n := s.state.Counts()
	assert.Zero(t, [...]int{n.Clients, n.Sessions, n.Opens, n.Locks, n.Delegations}, "clients, sessions, opens, locks, delegations")
	s.Close()
	assert.Equal(t, buffers, buf.Default.Out(), "buffers")
	assert.Equal(t, descriptors, w.openDescriptors(), "descriptors")
	return w.succeeded
}

// randomInput returns a seed's choices.
func randomInput(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestRandomCalls sends COMPOUNDs that fixed seeds decide: whatever two clients send, each
// operation ends with a status that the standard lists for it, no user gets at what the
// exports do not permit, and nothing is left when the clients have ended.
func TestRandomCalls(t *testing.T) {
	total := make(map[nfs4.Op]int)
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			for op, n := range testRandomCalls(t, randomInput(seed, 150_000)) {
				total[op] += n
			}
		})
	}
	for _, op := range []nfs4.Op{
		nfs4.OpClose, nfs4.OpCopy, nfs4.OpCreate, nfs4.OpLink, nfs4.OpLock, nfs4.OpLockU, nfs4.OpLookupP, nfs4.OpOpen, nfs4.OpOpenDowngrade,
		nfs4.OpRead, nfs4.OpRemove, nfs4.OpRename, nfs4.OpSecInfo, nfs4.OpSecInfoNoName, nfs4.OpSetAttr, nfs4.OpWrite,
	} {
		assert.NotZero(t, total[op], op)
	}
	t.Log(total)
}

// FuzzRandomCalls is TestRandomCalls with the fuzzer's choices.
func FuzzRandomCalls(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(randomInput(100+seed, 500))
	}
	f.Fuzz(func(t *testing.T, input []byte) { testRandomCalls(t, input) })
}
