//go:build interop

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/may"
)

// A testUser is a user with its groups.
type testUser struct {
	uid, gid int
	groups   []int
}

// mayArguments returns the arguments of guestwork may.
func (p testUser) mayArguments() string {
	s := fmt.Sprint(p.uid, p.gid)
	for _, g := range p.groups {
		s += fmt.Sprint(" ", g)
	}
	return s
}

// manyGroups returns the groups from may.Early to may.Late.
func manyGroups() (list []int) {
	for g := may.Early; g <= may.Late; g++ {
		list = append(list, g)
	}
	return list
}

var (
	alice  = testUser{may.Alice, may.Alice, []int{may.Early}}
	bob    = testUser{may.Bob, may.Bob, []int{may.Late}}
	nobody = testUser{65534, 65534, nil}

	member = testUser{may.Alice, may.Alice, manyGroups()}
	sent   = testUser{may.Alice, may.Alice, manyGroups()[:16]} // the groups that the kernel sends
	bare   = testUser{may.Alice, may.Alice, nil}
)

// TestIdentity makes users of the guest try all operations on a mount, and the
// corresponding users of the server do the same on the host. Both must get the
// same results, and leave the same state. Cases that combine what others show are
// for make soak.
func TestIdentity(t *testing.T) {
	sharedGuest(t)
	for name, tt := range map[string]struct {
		options string // export options
		flags   []string
		daemon  *testUser // nil: root
		there   testUser  // the user in the guest
		here    testUser  // the corresponding user on the host
		soak    bool
	}{
		"alice":                {"root_squash", nil, nil, alice, alice, false},
		"bob":                  {"root_squash", nil, nil, bob, bob, true},
		"40 groups":            {"root_squash", nil, nil, member, sent, false},
		"40 groups, managed":   {"root_squash", []string{"--manage-gids"}, nil, member, member, true},
		"of no group, managed": {"root_squash", []string{"--manage-gids"}, nil, bare, member, false},
		"root squashed":        {"root_squash", nil, nil, testUser{}, nobody, false},
		"root":                 {"no_root_squash", nil, nil, testUser{}, testUser{}, false},
		"all squashed":         {"all_squash", nil, nil, alice, nobody, false},
		"ordinary user":        {"root_squash", nil, &bob, bob, bob, false},
		"ordinary user, other": {"root_squash", nil, &bob, testUser{may.Bob, may.Alice, nil}, bob, false},
	} {
		if tt.soak && os.Getenv("INTEROP_SOAK") == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			served, local := makeMayTree(t), makeMayTree(t)
			file := filepath.Join(reachableDir(t), "exports")
			require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf("%s *(rw,insecure,%s)\n", served, tt.options)), 0o644))
			said := new(sharedBuffer)
			d, err := StartServer(said, daemonOf(t, tt.daemon), append(tt.flags, "--exports", file, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0")...)
			require.NoError(t, err, "nfsrdmad says: %s", said)
			defer d.Kill()
			s := guestSite{host: "10.0.2.2", export: served, rdma: portOf(t, d.RDMA), tcp: portOf(t, d.TCP), mountd: portOf(t, d.TCP)}
			s.mountInGuest(t, "/mnt", s.mountOptions("rdma", "actimeo=0"))
			there := mustInGuest(t, "guestwork may /mnt "+tt.there.mayArguments())
			unmountInGuest(t, "/mnt")
			here, err := exec.Command(programPath("guestwork"), strings.Fields("may "+local+" "+tt.here.mayArguments())...).Output()
			require.NoError(t, err)
			var left, wanted strings.Builder
			require.NoError(t, may.Look(served, &left))
			require.NoError(t, may.Look(local, &wanted))
			compare := func(here, there string) { sameLines(t, here, there) }
			if tt.there.uid != 0 && tt.there.uid != tt.here.uid {
				compare = func(here, there string) { sameLines(t, removeLines(may.Sticky, here), removeLines(may.Sticky, there)) }
			}
			compare(string(here), there)
			compare(wanted.String(), left.String())
			assert.Equal(t, tt.daemon != nil, strings.Contains(said.String(), "not running as root: all calls are executed as this user"))
		})
	}
}

// removeLines removes lines.
func removeLines(out func(string) bool, text string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), out), "\n")
}

// makeMayTree returns a new tree of package may.
func makeMayTree(t *testing.T) string {
	dir := Served(t)
	require.NoError(t, may.Make(dir))
	return dir
}

// daemonOf returns the daemon as a program that p runs after a login; for root,
// on a host on which Alice is in all groups.
func daemonOf(t *testing.T, p *testUser) string {
	dir := reachableDir(t)
	put := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o755))
		return name
	}
	if p != nil {
		home := filepath.Join(dir, "home")
		require.NoError(t, os.Mkdir(home, 0o700))
		require.NoError(t, os.Chown(home, p.uid, p.gid))
		return put("nfsrdmad", fmt.Sprintf(`#!/bin/sh
export HOME=%[1]s XDG_RUNTIME_DIR=%[1]s
unset XDG_STATE_HOME
exec setpriv --reuid=%[2]d --regid=%[3]d --groups=%[4]s %[5]s "$@"
`, home, p.uid, p.gid, strings.Trim(strings.ReplaceAll(fmt.Sprint(p.groups), " ", ","), "[]"), programPath("nfsrdmad")))
	}
	users := put("passwd", fmt.Sprintf("root:x:0:0::/:/bin/sh\nalice:x:%[1]d:%[1]d::/:/bin/sh\n", may.Alice))
	lines := fmt.Sprintf("root:x:0:\nalice:x:%d:\n", may.Alice)
	for _, g := range manyGroups() {
		lines += fmt.Sprintf("project%[1]d:x:%[1]d:alice\n", g)
	}
	return put("nfsrdmad", fmt.Sprintf(`#!/bin/sh
exec unshare --mount sh -ec 'mount --bind %s /etc/passwd; mount --bind %s /etc/group; exec %s "$@" --state %s --control ""' sh "$@"
`, users, put("group", lines), programPath("nfsrdmad"), t.TempDir()))
}
