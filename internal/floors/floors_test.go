package floors

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/nfsrdma/nfsrdma/"
	front  = "." // the root package, whose import path has no slash after the module's name
	root   = "../.."
)

// floors are the packages and their floors. A package imports only from floors
// below its own.
var floors = map[string]int{
	"rdma/buf": 0, "chunks": 0, "cmpriv": 0, "rdma/iwarp/mpa/mpatest": 0, "rdma": 0, "oncrpc/xdr": 0,
	"internal/autofstest": 0, "internal/bootahead": 0, "internal/buildinfo": 0, "internal/certtest": 0, "internal/cli": 0, "internal/conformance": 0, "internal/fairshare": 0, "internal/firstbytes": 0, "internal/floors": 0, "internal/keepalive": 0, "internal/lograte": 0, "internal/lookupcache": 0, "internal/manual": 0, "internal/mappedsend": 0, "internal/mountinfo": 0, "internal/nstest": 0, "internal/pcap": 0, "internal/quickack": 0, "internal/racetest": 0, "internal/relief": 0, "internal/samehost": 0, "internal/sbom": 0, "internal/serverlist": 0, "internal/stablefile": 0, "internal/tenure": 0, "internal/wiretest": 0, "internal/workpool": 0, "vfs/posix/internal/filesync": 0, "vfs/posix/internal/handletable": 0, "vfs/posix/internal/leasesignal": 0,
	"oncrpc/gss": 1, "rdma/iwarp/ddp": 1, "rdma/iwarp/mpa": 1, "oncrpc/rpcmsg": 1, "rdma/rdmatest": 1, "rdma/roce/packet": 1, "rpcrdma/wire": 1, "oncrpc/gss/tickets/wire": 1, "internal/certauth": 1, "internal/standby": 1, "internal/conformance/check": 1, "internal/mountopt": 1,
	"oncrpc/gss/krb5": 2, "rdma/iwarp/rdmap": 2, "rdma/iwarp/recorder": 2, "oncrpc": 2,
	"delegation": 3, "vfs/locks": 3, "nfsserver/recall": 3, "oncrpc/replay": 3, "oncrpc/rpcstats": 3, "oncrpc/rpctest": 3, "rdma/iwarp": 3, "rdma/roce": 3, "rpcrdma": 3, "oncrpc/rpcsec": 3, "oncrpc/rpctls": 3,
	"delegation/client": 4, "delegation/server": 4, "nfsserver/exports": 4, "nfsserver/idmap": 4, "nfsserver/journal": 4, "nfs/mount3": 4, "nfs/nfs3": 4, "nfs/nfs4": 4, "nfs/nfsacl": 4, "nfs/nlm4": 4, "nfs/nsm": 4, "oncrpc/rpcbind": 4, "rpcrdma/stream": 4, "oncrpc/gss/tickets": 4, "vfs": 4, "internal/clusterfs": 4, "internal/discover": 4, "internal/pingpong": 4, "internal/probe": 4,
	"internal/doctor": 5, "nfsclient/nlmclient": 5, "nfs/nfs4/nfs4test": 5, "nfs/nlm4/nlm4test": 5, "nfs/nfs4acl": 5, "nfsclient/nfs4client": 5, "nfsserver/nfs4state": 5, "nfsclient": 5, "nfsserver/exportset": 5, "vfs/billy": 5, "vfs/mem": 5, "vfs/posix": 5, "vfs/vfstest": 5,
	"nfsclient/fusefs": 6, "internal/copytree": 6, "internal/loadgen": 6, "nfsserver/nlmserver": 6, "nfsserver/nfs4server": 6, "nfsserver": 6, "internal/bridge": 6,
	front: 7, "cmd/nfsrdmad/internal/report": 7, "nfsserver/gonfs": 7,
	"cmd/mountrdma": 8, "cmd/nfsrdma-gss": 8, "cmd/nfsrdmad": 8, "internal/bench": 8,
}

// beside are the imports within a floor: the vocabulary of a package in
// terms of another's.
var beside = map[string][]string{
	"rdma":   {"rdma/buf"},           // a received message is a lent buffer
	"chunks": {"rdma", "oncrpc/xdr"}, // a segment is an STag, offset and length, in XDR

	"nfs/nfsacl": {"nfs/nfs3"}, // the program's handles, attributes and errors are NFS's
}

// peers are imported by tests, although they are not on a lower floor.
var peers = map[string][]string{"delegation": {"nfsserver/recall"}, "nfsclient/nlmclient": {"nfs/nlm4/nlm4test"}, "nfsclient/nfs4client": {"nfsserver/nfs4server", "nfsserver/nfs4state", "nfsserver/exportset", "vfs/mem"}, "internal/bridge": {"nfsserver"}, "internal/copytree": {"nfsserver"}, "nfs/nfs3": {"rpcrdma/stream"}, "nfsclient": {"nfsserver"}, "oncrpc/replay": {"oncrpc/rpctest"}, "oncrpc/rpcsec": {"oncrpc/replay", "rpcrdma"}, "oncrpc/rpcstats": {"oncrpc/rpctest"}, "nfsclient/fusefs": {"nfsserver"}, "vfs/posix": {"nfsserver"}}

// testOnly are imported only by tests and by each other.
var testOnly = []string{"internal/autofstest", "internal/bootahead", "internal/certtest", "internal/clusterfs", "internal/manual", "internal/nstest", "internal/racetest", "internal/wiretest", "rdma/iwarp/mpa/mpatest", "nfs/nfs4/nfs4test", "nfs/nlm4/nlm4test", "oncrpc/rpctest", "rdma/rdmatest", "vfs/vfstest"}

// choosers may import the provider, besides the commands: the root package, and the bench, which is
// a program and frames messages itself.
var choosers = []string{front, "internal/bench"}

// apart is outside the floors: it may import anything, and must not be
// imported.
const apart = "interop"

// pure are codecs: bytes to values and back, without network, log or clock.
var pure = []string{"chunks", "cmpriv", "rdma/iwarp/ddp", "rdma/iwarp/mpa", "rdma/iwarp/rdmap", "nfs/mount3", "nfs/nfs3", "nfs/nfs4", "nfs/nfs4acl", "nfs/nfsacl", "nfs/nlm4", "nfs/nsm", "oncrpc/rpcmsg", "rpcrdma/wire", "oncrpc/xdr"}

var impure = []string{"context", "io", "log", "log/slog", "net", "os", "reflect", "time"}

// unguessable are packages that draw numbers that no peer may guess, from
// crypto/rand and no other source.
var unguessable = []string{"delegation", "oncrpc/gss/krb5", "rdma/iwarp", "nfsserver/nfs4server", "nfsserver/nfs4state", "nfsserver", "nfsserver/exportset", "oncrpc/rpcsec"}

// TestFloors checks the imports of every file (R5040-8.1.1-8-1: STags come from
// crypto/rand).
func TestFloors(t *testing.T) {
	met := make(map[string]bool)
	for file, imports := range sources(t) {
		pkg := path.Dir(file)
		if within(apart, pkg) {
			continue
		}
		met[pkg] = true
		if _, ok := floors[pkg]; !ok {
			t.Errorf("%s: package %s has no floor: add it to the table here and to ARCHITECTURE.md", file, pkg)
			continue
		}
		for _, imp := range imports {
			assert.NoError(t, check(pkg, strings.HasSuffix(file, "_test.go"), imp), file)
		}
	}
	for pkg := range floors {
		assert.True(t, met[pkg], "the table names %s, which does not exist", pkg)
	}
}

// TestDrawing checks that ARCHITECTURE.md draws each package on its floor.
func TestDrawing(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	_, drawing, _ := strings.Cut(string(text), "```\n")
	drawing, _, _ = strings.Cut(drawing, "```")
	drawn := make(map[string]int)
	floor := -1
	columns := regexp.MustCompile(` {2,}`)
	for line := range strings.Lines(drawing) {
		for i, field := range columns.Split(strings.TrimSpace(line), -1) {
			name := strings.TrimSuffix(field, " ┊")
			if name == "nfsrdma" {
				name = front
			}
			if _, ok := floors[name]; ok {
				drawn[name] = floor
			} else if n, err := strconv.Atoi(field); err == nil && i == 0 {
				floor = n
			}
			assert.Equal(t, slices.Contains(testOnly, name), strings.HasSuffix(field, "┊"), field)
		}
	}
	assert.Equal(t, floors, drawn)
}

// TestCheck checks that each rule refuses the imports that it forbids.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		pkg  string
		test bool
		imp  string
		want string // empty: allowed
	}{
		{"rpcrdma", false, module + "oncrpc", ""},
		{"rpcrdma", true, module + "rdma/rdmatest", ""},
		{"vfs/posix", true, module + "vfs/vfstest", ""},
		{"vfs/posix", true, module + "vfs/posix", ""},
		{"nfsclient", true, module + "nfsserver", ""},
		{"nfsclient", false, module + "nfsserver", "not below"},
		{"rdma", false, module + "rdma/buf", ""},
		{"cmd/nfsrdmad", false, module + "rdma/iwarp", ""},
		{"cmd/nfsrdmad", false, strings.TrimSuffix(module, "/"), ""},
		{front, true, strings.TrimSuffix(module, "/"), ""},
		{front, false, module + "rdma/iwarp/mpa", ""},
		{front, false, module + "cmd/nfsrdmad", "not below"},
		{"nfsserver/gonfs", false, strings.TrimSuffix(module, "/"), "not below"},
		{"rdma/iwarp", false, "net", ""},
		{"rdma/buf", false, module + "rdma", "not below"},
		{"oncrpc", false, module + "rpcrdma", "not below"},
		{"oncrpc", true, module + "rpcrdma", "not below"},
		{"rdma/iwarp/ddp", false, module + "rdma/iwarp/mpa", "not below"},
		{"rpcrdma", false, module + "rdma/rdmatest", "only for tests"},
		{"nfsserver", false, module + "rdma/iwarp", "provider"},
		{"nfsserver", true, module + "rdma/iwarp/mpa", "provider"},
		{"nfsserver", false, module + "interop", "outside the floors"},
		{"nfsserver", false, module + "nosuch", "no floor"},
		{"chunks", false, "net/netip", "codec"},
		{"chunks", true, "net/netip", ""},
		{"oncrpc/xdr", false, "time", "codec"},
		{"rdma/iwarp", false, "math/rand/v2", "guess"},
		{"rdma/iwarp", false, "crypto/rand", ""},
		{"rdma/iwarp", true, "math/rand/v2", ""},
	} {
		err := check(tt.pkg, tt.test, tt.imp)
		if tt.want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, tt.want)
		}
	}
}

// check reports whether a file of pkg may import imp.
func check(pkg string, test bool, imp string) error {
	to, ours := strings.CutPrefix(imp, module)
	if imp+"/" == module {
		to, ours = front, true
	}
	switch {
	case !ours:
		if !test && slices.Contains(unguessable, pkg) && within("math/rand", imp) {
			return fmt.Errorf("%s imports %s, whose numbers a peer may guess: use crypto/rand", pkg, imp)
		}
		if !test && slices.Contains(pure, pkg) && slices.ContainsFunc(impure, func(p string) bool { return within(p, imp) }) {
			return fmt.Errorf("%s is a codec and does not import %s", pkg, imp)
		}
		return nil
	case to == pkg && test:
		return nil // an external test package
	case test && slices.Contains(peers[pkg], to):
		return nil
	case within(apart, to):
		return fmt.Errorf("%s imports %s, which only programs outside the floors may import", pkg, to)
	case within("rdma/iwarp", to) && !within("rdma/iwarp", pkg) && !within("cmd", pkg) && !slices.Contains(choosers, pkg):
		return fmt.Errorf("%s imports %s: only commands and the root package choose the provider", pkg, to)
	}
	floor, ok := floors[to]
	if !ok {
		return fmt.Errorf("%s imports %s, which has no floor", pkg, to)
	}
	if slices.Contains(testOnly, to) {
		if !test && !slices.Contains(testOnly, pkg) {
			return fmt.Errorf("%s imports %s, which is only for tests", pkg, to)
		}
		if floor == floors[pkg] {
			return nil // a test beside its helpers
		}
	}
	if floor >= floors[pkg] && !slices.Contains(beside[pkg], to) {
		return fmt.Errorf("%s (floor %d) imports %s (floor %d), which is not below it", pkg, floors[pkg], to, floor)
	}
	return nil
}

// within reports whether p is dir or below it.
func within(dir, p string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// sources maps each Go file of the module, with any build tags, to its
// imports. It reads the files itself, because the test cache does not see a
// child process's reads.
func sources(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || name == "tools" || strings.HasPrefix(name, ".") && p != root {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(p) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(fset, p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		imports := make(map[string]bool)
		for _, spec := range f.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports[imp] = true
		}
		all[filepath.ToSlash(rel)] = slices.Sorted(maps.Keys(imports))
		return nil
	})
	require.NoError(t, err)
	return all
}
