package vfstest

import (
	"maps"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A Backend is a file system under test.
type Backend struct {
	// New returns an empty file system whose root belongs to Caller. New
	// registers a cleanup that closes the file system.
	New func(t *testing.T) vfs.FS

	// Restart stops the process that served old, properly or, if killed is set, without closing
	// old. It returns a file system that serves the same files, and registers a cleanup that
	// closes it. A nil Restart means that handles do not survive the process; tests then omit
	// the steps after a restart.
	Restart func(t *testing.T, old vfs.FS, killed bool) vfs.FS

	// Fill creates empty files in the root that belong to Caller, faster than
	// Create does. Nil means Create.
	Fill func(t *testing.T, fs vfs.FS, names []string)

	Caller vfs.Cred // identity for most tests

	// Without maps the names of tests that do not apply to the reason.
	Without map[string]string
}

// A suiteTest is a function over a new file system.
type suiteTest struct {
	name string
	run  func(*testFS)

	// root means that only root can create the necessary callers and objects.
	root bool

	// restart means that the test depends on a restart.
	restart bool

	// opener means that the test is of a vfs.Opener.
	opener bool
}

// Run runs the suite on b.
func Run(t *testing.T, b Backend) {
	names := make([]string, 0, len(tests))
	for _, tt := range tests {
		names = append(names, tt.name)
		if why, ok := b.Without[tt.name]; ok {
			t.Logf("%s does not apply: %s", tt.name, why)
			continue
		}
		if tt.restart && b.Restart == nil {
			t.Logf("%s does not apply: no object outlives the process", tt.name)
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			if tt.root {
				NeedRoot(t)
			}
			r := newTestFS(t, &b)
			if _, ok := r.fs.(vfs.Opener); tt.opener && !ok {
				t.Log("does not apply: the file system opens no files")
				return
			}
			tt.run(r)
		})
	}
	require.Subset(t, names, slices.Collect(maps.Keys(b.Without)), "unknown tests are declared not to apply")
}

// NeedRoot fails a test that ordinary users cannot run. A skip would look as if
// the test had run.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatalf("%s needs root, and this is an ordinary user: run it as root", t.Name())
	}
}

// tests is the suite.
var tests = []suiteTest{
	{name: "Root", run: testRoot},
	{name: "Lookup", run: testLookup},
	{name: "NamesRefused", run: testNamesRefused},
	{name: "NamesOdd", run: testNamesOdd},
	{name: "Create", run: testCreate},
	{name: "CreateExclusive", run: testCreateExclusive},
	{name: "Mkdir", run: testMkdir},
	{name: "Symlink", run: testSymlink},
	{name: "SymlinkTimes", run: testSymlinkTimes},
	{name: "Special", run: testSpecial},
	{name: "Devices", run: testDevices, root: true},
	{name: "Remove", run: testRemove},
	{name: "Rmdir", run: testRmdir},
	{name: "Rename", run: testRename},
	{name: "RenameOver", run: testRenameOver},
	{name: "Link", run: testLink},
	{name: "WrongTypes", run: testWrongTypes},
	{name: "SetAttrMode", run: testSetAttrMode},
	{name: "SetAttrSize", run: testSetAttrSize},
	{name: "SetAttrTimes", run: testSetAttrTimes},
	{name: "SetAttrGuard", run: testSetAttrGuard},
	{name: "SetAttrOwner", run: testSetAttrOwner, root: true},
	{name: "ReadWrite", run: testReadWrite},
	{name: "ReadEnd", run: testReadEnd},
	{name: "Sparse", run: testSparse},
	{name: "Offsets", run: testOffsets},
	{name: "Stability", run: testStability},
	{name: "WCC", run: testWCC},
	{name: "Change", run: testChange},
	{name: "Open", run: testOpen, opener: true},
	{name: "OpenRemoved", run: testOpenRemoved, opener: true},
	{name: "OpenCreate", run: testOpenCreate, opener: true},
	{name: "OpenTypes", run: testOpenTypes, opener: true},
	{name: "OpenConcurrent", run: testOpenConcurrent, opener: true},
	{name: "OpenRights", run: testOpenRights, opener: true, root: true},
	{name: "LeaseWrite", run: testLeaseWrite, opener: true},
	{name: "Space", run: testSpace, opener: true},
	{name: "SpaceRights", run: testSpaceRights, opener: true, root: true},
	{name: "Copy", run: testCopy, opener: true},
	{name: "ReadDir", run: testReadDir},
	{name: "ReadDirPieces", run: testReadDirPieces},
	{name: "ReadDirChanging", run: testReadDirChanging},
	{name: "ReadDirPlus", run: testReadDirPlus},
	{name: "ReadDirCookies", run: testReadDirCookies},
	{name: "HandlesMove", run: testHandlesMove},
	{name: "HandlesStale", run: testHandlesStale},
	{name: "HandlesOne", run: testHandlesOne},
	{name: "HandlesForged", run: testHandlesForged},
	{name: "Keys", run: testKeys},
	{name: "Restart", run: func(r *testFS) { testRestart(r, false) }, restart: true},
	{name: "Kill", run: func(r *testFS) { testRestart(r, true) }, restart: true},
	{name: "Verifier", run: testVerifier, restart: true},
	{name: "StatFS", run: testStatFS},
	{name: "Concurrent", run: testConcurrent},
	{name: "ConcurrentWCC", run: testConcurrentWCC},
	{name: "ConcurrentNames", run: testConcurrentNames},
	{name: "Rights", run: testRights, root: true},
	{name: "RightsChange", run: testRightsChange, root: true},
	{name: "RightsOwner", run: testRightsOwner, root: true},
	{name: "RightsDir", run: testRightsDir, root: true},
	{name: "RightsTimes", run: testRightsTimes, root: true},
	{name: "OwnersOfNew", run: testOwnersOfNew, root: true},
	{name: "Xattrs", run: testXattrs},
	{name: "XattrRights", run: testXattrRights, root: true},
}

// Errors with numbers in the standard, as a host reports them.
const (
	errAccess   = syscall.EACCES
	errPerm     = syscall.EPERM
	errExist    = syscall.EEXIST
	errNoEnt    = syscall.ENOENT
	errInval    = syscall.EINVAL
	errStale    = syscall.ESTALE
	errNotDir   = syscall.ENOTDIR
	errIsDir    = syscall.EISDIR
	errNotEmpty = syscall.ENOTEMPTY
	errTooBig   = syscall.EFBIG
	errNameLong = syscall.ENAMETOOLONG
)
