package nfsserver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

func TestNewErrors(t *testing.T) {
	fs := newMemFS()
	for _, tt := range []struct {
		name string
		c    Config
		want string
	}{
		{"payload too small", Config{MaxPayload: 4095}, "MaxPayload"},
		{"payload too large", Config{MaxPayload: 4<<20 + 1}, "MaxPayload"},
		{"no file system", Config{Exports: []Export{{Path: "/x"}}}, `"/x" has no file system`},
		{"relative", Config{Exports: []Export{{Path: "x", FS: fs}}}, "absolute and clean"},
		{"empty", Config{Exports: []Export{{FS: fs}}}, "absolute and clean"},
		{"not clean", Config{Exports: []Export{{Path: "/x/", FS: fs}}}, "absolute and clean"},
		{"NUL", Config{Exports: []Export{{Path: "/x\x00", FS: fs}}}, "absolute and clean"},
		{"too long", Config{Exports: []Export{{Path: "/" + strings.Repeat("x", 1024), FS: fs}}}, "longer than 1024"},
		{"no network", Config{Exports: []Export{{Path: "/x", FS: fs, Clients: []exports.Client{{Host: exports.Host{Kind: exports.Network}}}}}}, "invalid client network"},
		{"twice", Config{Exports: []Export{{Path: "/x", FS: fs}, {Path: "/x", FS: fs}}}, "exported twice"},
		{"same ID", Config{Exports: []Export{{Path: "/x", FS: fs, ID: 5}, {Path: "/y", FS: fs, ID: 5}}}, `"/x" and "/y" have the same ID 0x5`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.c)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

// TestIdentity checks that file handles stay valid after a restart, for any export order.
func TestIdentity(t *testing.T) {
	fs := newMemFS()
	a := newTestServer(t, fs)
	b := newTestServer(t, fs, func(c *Config) { c.Exports = append([]Export{{Path: "/a", FS: newMemFS()}}, c.Exports...) })
	assert.Equal(t, a.handleOf(memRoot), b.handleOf(memRoot, 1))
	assert.Equal(t, nfs3.FH{
		2, 0x57, 0xd1, 0xf0, 0xd2, 0, 0, 0, 0, 0, 0, 0, 1,
		0x5c, 0x01, 0x5d, 0xd8, 0x8e, 0x03, 0xaf, 0x65, 0xec,
	}, b.handleOf(memRoot, 1), "neither hash nor seal ever change")
	set := newTestServer(t, fs, func(c *Config) { c.Exports[0].ID = 7 })
	assert.Equal(t, nfs3.FH{2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1}, set.handleOf(memRoot)[:handleHead+8])
}

func TestPrograms(t *testing.T) {
	const nlm = 100021
	g := newTestServer(t, newMemFS())
	for _, tt := range []struct {
		name             string
		prog, vers, proc uint32
		stat             uint32
		results          []byte
	}{
		{"NFS NULL", nfs3.Program, 3, 0, 0, nil},
		{"MOUNT NULL", mount3.Program, 3, 0, 0, nil},
		{"NFSACL NULL", nfsacl.Program, 3, 0, 0, nil},
		{"NFSACL version 2", nfsacl.Program, 2, 0, 2, []byte{0, 0, 0, 3, 0, 0, 0, 3}},
		{"NFSACL procedure 3", nfsacl.Program, 3, 3, 3, nil},
		{"NLM is unavailable", nlm, 4, 0, 1, nil},
		{"NFS version 4", nfs3.Program, 4, 0, 2, []byte{0, 0, 0, 3, 0, 0, 0, 3}},
		{"NFS version 2", nfs3.Program, 2, 0, 2, []byte{0, 0, 0, 3, 0, 0, 0, 3}},
		{"MOUNT version 1", mount3.Program, 1, 1, 2, []byte{0, 0, 0, 3, 0, 0, 0, 3}},
		{"NFS procedure 22", nfs3.Program, 3, 22, 3, nil},
		{"NFS procedure 2^32-1", nfs3.Program, 3, 1<<32 - 1, 3, nil},
		{"MOUNT procedure 6", mount3.Program, 3, 6, 3, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			head, _ := g.serveCall(g.callHeader(tt.prog, tt.vers, tt.proc), nil)
			stat, results := g.parseAccepted(head)
			require.Equal(t, tt.stat, stat)
			assert.Equal(t, string(tt.results), string(results))
		})
	}
}
