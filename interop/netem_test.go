//go:build interop

package interop

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	netemLargest = 6 << 20         // bytes of a file
	netemLimit   = 3 * time.Minute // for one program to finish
)

// TestNetem checks file copies to nfsrdmad and back while another connection
// reads continuously, over a network that loses, delays and reorders packets.
// CRCs are on, and TCP must hide every fault of the network. INTEROP_SOAK is
// the duration, half a minute by default.
func TestNetem(t *testing.T) {
	buildOnce(t)
	long := []string{"--crc=on"}
	// Each FPDU fits a TCP segment and contains Markers, in both directions.
	standard := []string{"--crc=on", "--no-extensions", "--markers=on"}
	networks := []struct {
		name  string
		mtu   uint32
		flags []string
	}{
		{"MTU 1500, long FPDUs", 1500, long},
		{"MTU 1500, Markers", 1500, standard},
		{"MTU 9000, long FPDUs", 9000, long},
		{"MTU 9000, Markers", 9000, standard},
	}
	length := soakTime(t, 20*time.Second) / time.Duration(len(networks))
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) { runNetem(t, n.mtu, length, n.flags) })
	}
}

func runNetem(t *testing.T, mtu uint32, length time.Duration, flags []string) {
	w := newBadWire(t, mtu)
	served, records, here := Served(t), t.TempDir(), t.TempDir()
	rdma := w.addrOf(0).String() + ":20049"
	var said sharedBuffer
	d, err := StartServer(&said, w.inNamespace(0, programPath("nfsrdmad")), append(flags, "--no-root-squash", "--tcp", w.addrOf(0).String()+":0",
		"--listen", rdma, "--control", "", "--state", t.TempDir(), "--record", records, served+"=/x")...)
	require.NoError(t, err, "nfsrdmad says: %s", &said)
	defer d.Kill()
	c := netemClient{t, w.inNamespace(1, programPath("mountrdma")), "nfs://" + rdma + "/x/", flags}

	require.NoError(t, os.WriteFile(filepath.Join(served, "read"), netemBytes(0), 0o644))
	reader := c.startRun("bench", c.url+"read", "--op=read", "--block=60000", "--depth=4", "--time", length.String())
	copies, size := 0, 0
	for start := time.Now(); time.Since(start) < length; copies++ {
		data := netemBytes(uint64(copies + 1))
		from, to := filepath.Join(here, "from"), filepath.Join(here, "to")
		require.NoError(t, os.WriteFile(from, data, 0o644))
		c.startRun("cp", from, c.url+"copy").checkSuccess()
		c.startRun("cp", c.url+"copy", to).checkSuccess()
		for _, file := range []string{filepath.Join(served, "copy"), to} {
			got, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, sha256.Sum256(data), sha256.Sum256(got), "%s, copy %d", file, copies)
		}
		size += 2 * len(data)
	}
	reader.checkSuccess()
	t.Logf("%v; %d files of %d bytes there and back; a reader: %s", w, copies, size/2, reader.out)

	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Positive(t, w.lost)
	assert.Positive(t, w.overtaken)
	assert.Len(t, w.connections, 1+2*copies, "one for each program: no connection is made again")
	left, err := os.ReadDir(records)
	require.NoError(t, err)
	assert.Empty(t, left, "records, one for each Terminate")
	assert.NotContains(t, said.String(), "level=ERROR")
}

// netemBytes returns a file's content, in which no two parts are equal.
func netemBytes(seed uint64) []byte {
	b := make([]byte, 1+rand.New(rand.NewPCG(seed, 0)).IntN(netemLargest))
	var key [32]byte
	copy(key[:], fmt.Sprint("file ", seed))
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
	return b
}

// A netemClient is mountrdma at the far end of the wire.
type netemClient struct {
	t       *testing.T
	program string
	url     string // the export's URL, with a trailing slash
	flags   []string
}

// A netemRun is one run of mountrdma.
type netemRun struct {
	*Process
	t         *testing.T
	cmd       *exec.Cmd
	out, said *sharedBuffer
}

func (c netemClient) startRun(args ...string) netemRun {
	c.t.Helper()
	r := netemRun{t: c.t, cmd: exec.Command(c.program, append(args, c.flags...)...), out: new(sharedBuffer), said: new(sharedBuffer)}
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.said
	var err error
	r.Process, err = StartProcess(r.cmd)
	require.NoError(c.t, err)
	c.t.Cleanup(r.Kill)
	return r
}

// checkSuccess waits for a run that must end soon and without an error.
func (r netemRun) checkSuccess() {
	r.t.Helper()
	select {
	case <-r.Done():
		require.Zero(r.t, r.ExitCode(), "%s: %s", r.cmd, r.said)
		require.Empty(r.t, r.said.String(), "%s", r.cmd)
	case <-time.After(netemLimit):
		r.t.Fatalf("%s: not done after %v", r.cmd, netemLimit)
	}
}
