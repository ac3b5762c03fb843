//go:build interop

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// multilockScripts are the scripts of multilock, in the order in which they use each other's files, and their
// clients. Without them: fork, which does not end on a local file system either, and deadlock, whose clients do not wait
// for each other's calls, so either of them may get EDEADLK (TestDeadlock3).
var multilockScripts = []struct {
	name    string
	clients []string
	tests   bool // by F_GETLK, to which knfsd of Linux 6.1 answers wrongly
}{
	{"simple_block", []string{"c1", "c2"}, false},
	{"script1", []string{"c1", "c2"}, true},
	{"script2", []string{"client1", "client2", "node1", "node2"}, true},
	{"split_lock", []string{"c1", "c2"}, true},
	{"split_lock_3", []string{"c1", "c2", "c3"}, true},
	{"split_lock_no_list", []string{"c1", "c2"}, false},
	{"try_test", []string{"c1", "c2"}, true},
	{"hoptest", []string{"c1", "c2"}, true},
	{designTests, []string{"c1", "c2"}, false},
}

// designTests locks 20,000 bytes one by one by its first client, which takes minutes if client or server is in the guest.
const designTests = "design_tests"

// TestMultilock3 runs multilock, the lock tests of nfs-ganesha, with clients on mounts
// over NFSv3 over RDMA and TCP in the guest, on one by mountrdma, and in the served
// directory: at nfsrdmad and at knfsd.
func TestMultilock3(t *testing.T) {
	sharedGuest(t)
	onEthernet(t)
	m := newMultilock(t)
	s := newLocks3Server(t)
	require.NoError(t, os.Chmod(s.dir, 0o777))
	for _, c := range []struct {
		name, server, remote, options string // by Linux, by mountrdma, and of mountrdma
		local                         lockPlace
		tests                         bool
	}{
		{"nfsrdmad", hostEthernet + ":/x", hostEthernet + ":/x", "port=20049", lockPlace{dir: s.dir}, true},
		{"knfsd", knfsdSite().host + ":/export", guestEthernet + ":/export", "mountport=20048", lockPlace{dir: "/export", guest: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for point, proto := range map[string]string{"/mnt": "rdma", "/mnt2": "tcp"} {
				mustInGuest(t, fmt.Sprintf("mount -t nfs -o vers=3,proto=%s %s %s", proto, c.server, point))
			}
			f := &fuseMount{t: t, point: reachableDir(t), said: new(sharedBuffer)}
			f.startProgram(exec.Command(shared.ethernet.inNamespace(t, programPath("mountrdma")), c.remote, f.point, "--foreground", "-o", "retry=0,"+c.options))
			places := []lockPlace{{dir: "/mnt", guest: true}, {dir: "/mnt2", guest: true}, {dir: f.point}, c.local}
			soak := os.Getenv("INTEROP_SOAK") != ""
			for _, script := range multilockScripts {
				if script.tests && !c.tests {
					continue
				}
				slow := script.name == designTests
				if !slow || soak {
					m.runScript(t, script.name, script.clients, places)
				}
				if !slow || soak || c.tests {
					m.runScript(t, script.name, script.clients, slices.Concat(places[2:3], places[:2], places[3:]))
				}
			}
			f.unmountFUSE()
			unmountInGuest(t, "/mnt2")
			unmountInGuest(t, "/mnt")
			mustInGuest(t, "rm -rf /export/*")
		})
	}
}

// A lockPlace is a directory of the guest or of the host.
type lockPlace struct {
	dir   string
	guest bool
}

// String returns the directory.
func (p lockPlace) String() string { return p.dir }

// multilockSetup has the programs on the guest's Ethernet, the directory of the scripts, and the port of ml_console,
// which is another one for each script: that of the last may still be in use.
type multilockSetup struct {
	console, client, scripts string
	port                     int
}

func newMultilock(t *testing.T) *multilockSetup {
	cmd := exec.Command("multilock/build")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	dir := strings.TrimSpace(string(out))
	client := filepath.Join(dir, "ml_posix_client")
	require.NoError(t, sharedGuest(t).Push(t.Context(), client, "/bin/ml_posix_client"))
	return &multilockSetup{shared.ethernet.inNamespace(t, filepath.Join(dir, "ml_console")), shared.ethernet.inNamespace(t, client), dir, 7800}
}

// multilockLimit is the time for a script.
const multilockLimit = 10 * time.Minute

// runScript runs a script, whose clients are in places.
func (m *multilockSetup) runScript(t *testing.T, script string, clients []string, places []lockPlace) {
	t.Helper()
	start := time.Now()
	m.port++
	port := strconv.Itoa(m.port)
	said := new(sharedBuffer)
	cmd := exec.Command(m.console, "-s", "-f", "-p", port, "-x", filepath.Join(m.scripts, script))
	cmd.Stdout, cmd.Stderr = said, said
	console, err := StartProcess(cmd)
	require.NoError(t, err)
	defer console.Kill()
	ss := shared.ethernet.inNamespace(t, "ss")
	require.Eventually(t, func() bool {
		out, _ := tryOnHost("/", fmt.Sprintf("%s -Hltn sport = :%s", ss, port))
		return out != ""
	}, daemonLimit, pollEvery, "ml_console: %s", said)
	for i, name := range clients {
		at := []string{"-q", "-s", hostEthernet, "-p", port, "-n", name, "-c", places[i].dir}
		if places[i].guest {
			g, err := sharedGuest(t).Open(t.Context(), "exec ml_posix_client "+strings.Join(at, " ")+" >/dev/null 2>&1")
			require.NoError(t, err)
			defer g.Close()
			continue
		}
		client, err := StartProcess(exec.Command(m.client, at...))
		require.NoError(t, err)
		defer client.Kill()
	}
	select {
	case <-console.Done():
		assert.Zero(t, console.ExitCode(), "%s at %v: %s", script, places, outputTail(said.String()))
	case <-time.After(multilockLimit):
		t.Errorf("%s at %v does not end: %s", script, places, outputTail(said.String()))
	}
	t.Logf("%s at %v: %.1f s", script, places, time.Since(start).Seconds())
}
