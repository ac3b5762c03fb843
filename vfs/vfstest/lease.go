package vfstest

import (
	"sync/atomic"
	"syscall"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// testLeaseWrite checks that a file system uses a file with a lease for writing as it uses any
// other, by handle and by files that were open before and are opened later, and that the file has
// no other lease at that time.
func testLeaseWrite(r *testFS) {
	l, ok := r.fs.(vfs.Leaser)
	if !ok {
		r.Log("does not apply: the file system knows of no other processes")
		return
	}
	f := r.createFile(r.root, "f", "0123456789")
	_, err := r.fs.Commit(r.ctx, r.c, f, 0, 0)
	require.NoError(r, err)
	before := r.openFile(f, openBoth)
	var breaks atomic.Int32
	lease := func(scope vfs.LeaseScope) (func(), error) {
		return l.Lease(r.ctx, r.c, f, scope, func() { breaks.Add(1) })
	}
	release, err := lease(vfs.LeaseWrite)
	if err == syscall.EOPNOTSUPP {
		r.Log("does not apply: files cannot have leases here")
		return
	}
	require.NoError(r, err)
	for _, scope := range []vfs.LeaseScope{vfs.LeaseData, vfs.LeaseAll, vfs.LeaseWrite} {
		_, err := lease(scope)
		assert.ErrorIs(r, err, syscall.EAGAIN, scope)
	}
	r.writeFile(f, "ab", 0)
	assert.Equal(r, "ab23456789", r.readAll(before.Read))
	later := r.openFile(f, openBoth)
	r.writeOpen(later.Write, "cd", 2)
	assert.Equal(r, "abcd456789", r.readFile(f))
	require.NoError(r, before.Write.SetSize(r.ctx, 5))
	assert.Equal(r, "abcd4", r.readAll(later.Read))
	r.setAttr(f, vfs.SetAttr{Size: ptrTo(uint64(3))})
	require.NoError(r, later.Write.Commit(r.ctx, 0, 0))
	assert.Zero(r, breaks.Load())
	release()
	release()
	assert.Equal(r, "abc", r.readAll(before.Read))
	r.writeOpen(later.Write, "d", 3)
	assert.Equal(r, "abcd", r.readFile(f))
	r.closeFile(before)
	r.closeFile(later)
	_, err = r.fs.Commit(r.ctx, r.c, f, 0, 0)
	require.NoError(r, err)
	for _, scope := range []vfs.LeaseScope{vfs.LeaseData, vfs.LeaseAll, vfs.LeaseWrite} {
		release, err := lease(scope)
		require.NoError(r, err, scope)
		release()
	}
	assert.Zero(r, breaks.Load())
}
