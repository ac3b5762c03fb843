package billy

import (
	"maps"
	"os"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

func serve(t testing.TB, fs gobilly.Filesystem, o Options) *FS {
	f, err := New(fs, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// currentCred returns the identity of the process, which does everything.
func currentCred() vfs.Cred { return vfs.Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())} }

// callers is the reason for omitting tests about callers.
const callers = "all callers are alike"

func TestConformance(t *testing.T) {
	without := map[string]string{
		"SymlinkTimes": "billy.Change cannot set times of links",
		"Devices":      callers, "SetAttrOwner": callers, "OwnersOfNew": callers,
		"Rights": callers, "RightsChange": callers, "RightsOwner": callers, "RightsDir": callers, "RightsTimes": callers,
	}
	for name, o := range map[string]Options{"alone": {}, "concurrent": {Concurrent: true}} {
		t.Run(name, func(t *testing.T) {
			vfstest.Run(t, vfstest.Backend{
				New:     func(t *testing.T) vfs.FS { return serve(t, newHost(t), o) },
				Caller:  currentCred(),
				Without: without,
			})
		})
	}
	// A file system with only the methods of billy.Filesystem, and only the
	// data of os.FileInfo.
	t.Run("bare", func(t *testing.T) {
		maps.Copy(without, map[string]string{
			"CreateExclusive": "attributes cannot change",
			"SetAttrMode":     "attributes do not change", "SetAttrTimes": "attributes do not change",
			"SetAttrSize": "it changes modes too", "Create": "it changes times too", "Mkdir": "it wants a sticky bit",
			"Special": "no special files", "ReadDirPlus": "it wants a FIFO", "WCC": "it wants links and FIFOs", "Change": "attributes do not change",
			"Keys": "no inode numbers",
			"Link": "no hard links", "HandlesMove": "it wants links", "HandlesOne": "it wants links", "RenameOver": "it wants links",
			"Sparse": "free space is unknown",
		})
		vfstest.Run(t, vfstest.Backend{
			New: func(t *testing.T) vfs.FS {
				return serve(t, struct{ gobilly.Filesystem }{newHost(t)}, Options{Info: noInfo})
			},
			Without: without, // the caller is root, because owners are unknown
		})
	})
}

// noInfo is an Info function of a file system in memory.
func noInfo(os.FileInfo) (Info, bool) { return Info{}, false }
