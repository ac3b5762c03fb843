package nfsserver

import (
	"context"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A fakeACLFS is a memFS with lists, and records the lists that were set.
type fakeACLFS struct {
	*memFS
	access, def       vfs.ACL
	setAccess, setDef *vfs.ACL
}

func (f *fakeACLFS) HasACLs() bool { return true }

func (f *fakeACLFS) GetACL(ctx context.Context, c *vfs.Cred, h vfs.Handle) (access, def vfs.ACL, a vfs.MaybeAttr, err error) {
	a.Attr, err = f.GetAttr(ctx, c, h)
	a.OK = err == nil
	return f.access, f.def, a, err
}

func (f *fakeACLFS) SetACL(ctx context.Context, c *vfs.Cred, h vfs.Handle, access, def *vfs.ACL) (vfs.MaybeAttr, error) {
	a, err := f.GetAttr(ctx, c, h)
	f.setAccess, f.setDef = access, def
	return vfs.MaybeAttr{OK: err == nil, Attr: a}, err
}

// callACL makes one NFSACL call and decodes its results into res.
func (g *testServer) callACL(proc uint32, args, res message) {
	g.t.Helper()
	head, item := g.serveCall(args.AppendTo(g.callHeader(nfsacl.Program, nfsacl.Version, proc)), nil)
	stat, results := g.parseAccepted(head)
	require.Zero(g.t, stat, "accept_stat of %s", nfsacl.ProcName(proc))
	assert.Nil(g.t, item, "no item of the program may be placed")
	g.decodeResults(results, nil, res)
}

var (
	hostList = vfs.ACL{
		{Tag: vfs.ACLUserObj, Perm: 7},
		{Tag: vfs.ACLUser, ID: 2000, Perm: 6},
		{Tag: vfs.ACLGroupObj, Perm: 5},
		{Tag: vfs.ACLMask, Perm: 7},
		{Tag: vfs.ACLOther, Perm: 4},
	}
	wireList = nfsacl.ACL{
		{Tag: nfsacl.UserObj, Perm: 7},
		{Tag: nfsacl.User, ID: 2000, Perm: 6},
		{Tag: nfsacl.GroupObj, Perm: 5},
		{Tag: nfsacl.Mask, Perm: 7},
		{Tag: nfsacl.Other, Perm: 4},
	}
	modeList = nfsacl.ACL{{Tag: nfsacl.UserObj, Perm: 7}, {Tag: nfsacl.GroupObj, Perm: 5}, {Tag: nfsacl.Other, Perm: 5}}
)

// TestGetACL checks that the lists come inline or in a reply chunk, never as a
// data item (R8267-5.2-1): see acl.
func TestGetACL(t *testing.T) {
	fs := &fakeACLFS{memFS: newMemFS(), access: hostList, def: hostList[:3]}
	g := newTestServer(t, fs)
	args := nfsacl.GetACLArgs{Object: g.handleOf(memRoot), Mask: nfsacl.MaskAll}
	var res nfsacl.GetACLRes
	g.callACL(nfsacl.ProcGetACL, &args, &res)
	assert.Equal(t, nfs3.OK, res.Status)
	assert.Equal(t, wireList, res.Access)
	assert.Equal(t, wireList[:3], res.Default)
	assert.EqualValues(t, memRoot, res.Attr.Attr.FileID)
	assert.Equal(t, nfsacl.MaskAll, res.Mask)
	assert.EqualValues(t, 1000, fs.cred.UID, "with the caller's credentials")

	fs.access, fs.def = nil, nil
	g.callACL(nfsacl.ProcGetACL, &args, &res)
	assert.Equal(t, modeList, res.Access, "the rights of the mode")
	assert.Nil(t, res.Default)

	args.Mask = nfsacl.MaskDefault
	g.callACL(nfsacl.ProcGetACL, &args, &res)
	assert.Equal(t, args.Mask, res.Mask)
	assert.Nil(t, res.Access, "not requested")

	args.Mask = 0x10
	g.callACL(nfsacl.ProcGetACL, &args, &res)
	assert.Equal(t, nfs3.ErrInval, res.Status)
	assert.True(t, res.Attr.OK)

	args.Mask = nfsacl.MaskAll
	fs.access = make(vfs.ACL, nfsacl.MaxEntries+1)
	g.callACL(nfsacl.ProcGetACL, &args, &res)
	assert.Equal(t, nfs3.ErrServerFault, res.Status)
	fs.access = make(vfs.ACL, nfsacl.MaxEntries)
	for i := range fs.access {
		fs.access[i] = vfs.ACLEntry{Tag: vfs.ACLUser, ID: uint32(i)}
	}
	g.callACL(nfsacl.ProcGetACL, &args, &res)
	assert.Len(t, res.Access, nfsacl.MaxEntries)

	fs.fail = syscall.ESTALE
	g.callACL(nfsacl.ProcGetACL, &args, &res)
	assert.Equal(t, nfsacl.GetACLRes{Status: nfs3.ErrStale}, res)
	args.Object = nfs3.FH("no handle")
	g.callACL(nfsacl.ProcGetACL, &args, &res)
	assert.Equal(t, nfsacl.GetACLRes{Status: nfs3.ErrBadHandle}, res)
}

func TestSetACL(t *testing.T) {
	fs := &fakeACLFS{memFS: newMemFS()}
	g := newTestServer(t, fs)
	args := nfsacl.SetACLArgs{Object: g.handleOf(memRoot), Mask: nfsacl.MaskAccess | nfsacl.MaskDefault, Access: wireList}
	var res nfsacl.SetACLRes
	g.callACL(nfsacl.ProcSetACL, &args, &res)
	assert.Equal(t, nfs3.OK, res.Status)
	assert.EqualValues(t, memRoot, res.Attr.Attr.FileID)
	assert.Equal(t, &hostList, fs.setAccess)
	assert.Equal(t, &vfs.ACL{}, fs.setDef, "taken away")

	args.Mask = nfsacl.MaskDefault
	g.callACL(nfsacl.ProcSetACL, &args, &res)
	assert.Nil(t, fs.setAccess, "not meant")
	args.Mask = 0x10
	g.callACL(nfsacl.ProcSetACL, &args, &res)
	assert.Equal(t, nfs3.ErrInval, res.Status)
	args.Mask = nfsacl.MaskAccess
	fs.fail = syscall.EPERM
	g.callACL(nfsacl.ProcSetACL, &args, &res)
	assert.Equal(t, nfs3.ErrPerm, res.Status)
}

// TestNoACLs checks that on a file system without lists GETACL returns the list
// equivalent to the mode, and SETACL fails, as with knfsd.
func TestNoACLs(t *testing.T) {
	g := newTestServer(t, newMemFS())
	var got nfsacl.GetACLRes
	g.callACL(nfsacl.ProcGetACL, &nfsacl.GetACLArgs{Object: g.handleOf(memRoot), Mask: nfsacl.MaskAll}, &got)
	assert.Equal(t, nfs3.OK, got.Status)
	assert.Equal(t, modeList, got.Access)
	assert.Nil(t, got.Default)
	var set nfsacl.SetACLRes
	g.callACL(nfsacl.ProcSetACL, &nfsacl.SetACLArgs{Object: g.handleOf(memRoot), Mask: nfsacl.MaskAccess, Access: wireList}, &set)
	assert.Equal(t, nfs3.ErrNotSupp, set.Status)
	assert.True(t, set.Attr.OK)
}

// TestACLReadOnly checks that a read-only export refuses SETACL.
func TestACLReadOnly(t *testing.T) {
	fs := &fakeACLFS{memFS: newMemFS(), access: hostList}
	g := newTestServer(t, fs, withOptions(exports.Options{ReadOnly: true}))
	var got nfsacl.GetACLRes
	g.callACL(nfsacl.ProcGetACL, &nfsacl.GetACLArgs{Object: g.handleOf(memRoot), Mask: nfsacl.MaskAccess}, &got)
	assert.Equal(t, wireList, got.Access)
	var set nfsacl.SetACLRes
	g.callACL(nfsacl.ProcSetACL, &nfsacl.SetACLArgs{Object: g.handleOf(memRoot), Mask: nfsacl.MaskAccess, Access: wireList}, &set)
	assert.Equal(t, nfs3.ErrROFS, set.Status)
	assert.True(t, set.Attr.OK)
	assert.Nil(t, fs.setAccess)
}
