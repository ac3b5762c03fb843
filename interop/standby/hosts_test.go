//go:build interop

package standby

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/clusterfs"
	"github.com/nfsrdma/nfsrdma/interop"
)

const (
	shared  = "/run/shared" // where each host has mounted the file system
	export  = shared + "/data"
	servers = "127.0.1.1,127.0.1.2"

	tenureTime = 2 * time.Second
	nfs4Lease  = 10 * time.Second
	limit      = time.Minute // for what must happen, on a busy machine
)

// A cluster is a file system with two hosts that serve it.
type cluster struct {
	t       *testing.T
	fs      *clusterfs.FileSystem
	exports string
	args    []string // of each host
	fence   bool     // by the engine's command

	serving, waiting *host
}

// newCluster makes the directories and the exports file.
func newCluster(t *testing.T, o clusterfs.Options, options string) *cluster {
	t.Helper()
	c := &cluster{t: t, fs: clusterfs.Start(t, o), exports: filepath.Join(t.TempDir(), "exports"), fence: true}
	require.NoError(t, os.Mkdir(filepath.Join(c.fs.Backing, "state"), 0o700))
	require.NoError(t, os.Mkdir(c.data(), 0o777))
	line := fmt.Sprintf("%s 127.0.0.0/8(%s,insecure,no_root_squash,fsid=7)\n", export, options)
	require.NoError(t, os.WriteFile(c.exports, []byte(line), 0o600))
	return c
}

// startCluster starts both hosts. The first one serves.
func startCluster(t *testing.T, o clusterfs.Options, args ...string) *cluster {
	t.Helper()
	c := newCluster(t, o, "rw,exclusive")
	c.args = args
	c.serving = c.start("a")
	c.serving.awaitServing()
	c.waiting = c.start("b")
	c.waiting.awaitWaiting()
	return c
}

// data is the exported directory, as the engine has it.
func (c *cluster) data() string { return filepath.Join(c.fs.Backing, "data") }

// A host is nfsrdmad in its own process, with its own mount of the file system.
type host struct {
	*interop.Process
	t       *testing.T
	name    string
	address string
	mount   *clusterfs.Host
	control string
	said    *output
}

// An output is what a process writes.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

// start starts a host with a new mount.
func (c *cluster) start(name string) *host {
	c.t.Helper()
	h := &host{t: c.t, name: name, address: map[string]string{"a": "127.0.1.1", "b": "127.0.1.2"}[name], said: new(output)}
	h.mount = c.fs.Mount(name)
	h.control = h.mount.Dir + ".control"
	args := append([]string{
		"serve", "--standby", "--tenure-time", tenureTime.String(), "--state", shared + "/state", "--exports", c.exports,
		"--listen", h.address + ":20049", "--tcp", h.address + ":2049", "--control", h.control, "--metrics", h.address + ":9000",
		"--lease", "1s", "--nfs4-lease", nfs4Lease.String(),
	}, c.args...)
	if c.fence {
		args = append(args, "--fence", strings.Join(c.fs.FenceCommand(), " "))
	}
	const script = `mount --bind "$1" ` + shared + `; hostname "$2"; shift 2; exec "$@"`
	words := append([]string{"--uts", "--mount", "sh", "-ec", script, "sh", h.mount.Dir, name, filepath.Join(programs, "nfsrdmad")}, args...)
	cmd := exec.Command("unshare", words...)
	cmd.Stdout, cmd.Stderr = h.said, h.said
	p, err := interop.StartProcess(cmd)
	require.NoError(c.t, err)
	h.Process = p
	c.t.Cleanup(h.end)
	return h
}

// end kills what is left of the host. Its mount goes first: the process might wait for it.
func (h *host) end() {
	h.Signal(unix.SIGKILL)
	h.mount.Kill()
	<-h.Done()
	if h.t.Failed() {
		h.t.Logf("nfsrdmad of host %s (process %d) says:\n%s", h.name, h.PID(), h.said)
	}
}

// A status is a part of what nfsrdmad status --json prints.
type status struct {
	Daemon struct {
		State string `json:"state"`
	} `json:"daemon"`
	Standby struct {
		Waiting bool    `json:"waiting"`
		Text    string  `json:"text"`
		Phase   string  `json:"phase"`
		Host    string  `json:"host"`
		Left    float64 `json:"tenure_seconds"`
		Fence   string  `json:"fence"`
	} `json:"standby"`
}

// status returns the host's status, or false if it has none now.
func (h *host) status() (s status, ok bool) {
	out, err := exec.Command(filepath.Join(programs, "nfsrdmad"), "status", "--json", "--control", h.control).Output()
	return s, err == nil && json.Unmarshal(out, &s) == nil
}

// get returns the HTTP status and the body of a path of --metrics.
func (h *host) get(path string) (code int, body string, err error) {
	client := http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + h.address + ":9000" + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// awaitHealth waits until /healthz returns code.
func (h *host) awaitHealth(code int) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		got, _, err := h.get("/healthz")
		return err == nil && got == code
	}, limit, 10*time.Millisecond, "host %s: %s", h.name, h.said)
}

func (h *host) awaitServing() {
	h.t.Helper()
	h.awaitHealth(http.StatusOK)
}

// awaitWaiting waits until the host has seen the other one serve.
func (h *host) awaitWaiting() {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		s, ok := h.status()
		return ok && s.Standby.Waiting && s.Standby.Host != ""
	}, limit, 50*time.Millisecond, "host %s: %s", h.name, h.said)
}
