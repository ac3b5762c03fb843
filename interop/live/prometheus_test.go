//go:build interop

package live

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/interop"
)

// alertLimit is how long an alert may take: its rule is looked at every second.
const alertLimit = 90 * time.Second

// A prometheusServer is a Prometheus that scrapes a daemon.
type prometheusServer struct{ api string }

// startPrometheus starts Prometheus with the project's rules.
func startPrometheus(t *testing.T, d *liveDaemon) *prometheusServer {
	t.Helper()
	rules, err := filepath.Abs("../../contrib/prometheus/nfsrdma.rules.yml")
	require.NoError(t, err)
	dir := t.TempDir()
	target := strings.Trim(strings.TrimPrefix(d.page, "http://"), "/")
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs: [{job_name: nfsrdma, static_configs: [{targets: ['%s']}]}]\n", rules, target)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=error")
	cmd.Stderr = os.Stderr
	p, err := interop.StartProcess(cmd)
	require.NoError(t, err, "scripts/setup soak installs it")
	t.Cleanup(p.Kill)
	return &prometheusServer{"http://" + address + "/api/v1/"}
}

// firingAlerts returns the names of the alerts that fire.
func (m *prometheusServer) firingAlerts(t *testing.T) map[string]bool {
	resp, err := http.Get(m.api + "alerts")
	if err != nil {
		return nil // it starts
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if resp.StatusCode != http.StatusOK {
		return nil
	}
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	require.NoError(t, json.Unmarshal(body, &answer), "%s", body)
	all := make(map[string]bool)
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			all[a.Labels["alertname"]] = true
		}
	}
	return all
}

// expectAlert repeats what makes an alert until it fires.
func (m *prometheusServer) expectAlert(t *testing.T, alert string, cause func()) {
	t.Helper()
	for end := time.Now().Add(alertLimit); ; time.Sleep(time.Second) {
		if m.firingAlerts(t)[alert] {
			return
		}
		require.True(t, time.Now().Before(end), "%s does not fire", alert)
		cause()
	}
}

// sendToMissingQueue begins an RDMA connection, sends to a queue that does not exist, and waits for
// the end. The bytes are MPA's request (RFC 5044, Section 7.1) and an FPDU without CRC.
func sendToMissingQueue(t *testing.T, address string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = c.Write([]byte("MPA ID Req Frame\x00\x01\x00\x00"))
	require.NoError(t, err)
	reply := make([]byte, 20)
	_, err = io.ReadFull(c, reply)
	require.NoError(t, err)
	require.Equal(t, "MPA ID Rep Frame", string(reply[:16]))
	_, err = io.CopyN(io.Discard, c, int64(reply[18])<<8+int64(reply[19]))
	require.NoError(t, err)
	fpdu := []byte{
		0, 18, // length
		0x41, 0x43, // DDP: the last segment, untagged; RDMAP: Send
		0, 0, 0, 0, // reserved
		0, 0, 0, 9, // queue
		0, 0, 0, 1, 0, 0, 0, 0, // message, offset
		0, 0, 0, 0, // no CRC
	}
	_, err = c.Write(fpdu)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, c) // the Terminate
}

// TestPrometheus scrapes a daemon, and sees the alerts of contrib fire: a full file
// system, a storm of Terminates, and a client that hangs with a delegation.
func TestPrometheus(t *testing.T) {
	if os.Getenv("INTEROP_SOAK") == "" {
		t.Skip("INTEROP_SOAK is not set")
	}
	out, err := exec.Command("promtool", "test", "rules", "../../contrib/prometheus/nfsrdma.test.yml").CombinedOutput()
	require.NoError(t, err, "%s", out)
	served := t.TempDir()
	require.NoError(t, os.Chmod(served, 0o755))
	file := filepath.Join(served, "file")
	require.NoError(t, os.WriteFile(file, []byte("early\n"), 0o644))
	d := startDaemon(t, "--lease=1s", served+"=/served")
	m := startPrometheus(t, d)
	mountrdma := filepath.Join(d.dir, "mountrdma")
	require.Eventually(t, func() bool {
		resp, err := http.Get(m.api + "query?query=nfsrdma_build_info")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(body), `"__name__":"nfsrdma_build_info"`)
	}, alertLimit, 100*time.Millisecond, "Prometheus does not scrape")
	defer http.DefaultClient.CloseIdleConnections()
	time.Sleep(3 * time.Second) // some scrapes of a daemon that works
	assert.Empty(t, m.firingAlerts(t))

	m.expectAlert(t, "NfsrdmaFull", func() {
		out, err := exec.Command(mountrdma, "cp", "/dev/zero", d.fileURL("zero")).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "NFS3ERR_NOSPC")
	})
	m.expectAlert(t, "NfsrdmaTerminates", func() {
		for range 5 {
			sendToMissingQueue(t, d.rdma)
		}
	})

	point := t.TempDir()
	_, port, _ := strings.Cut(d.rdma, ":")
	_, mountport, _ := strings.Cut(d.tcp, ":")
	fuse, err := interop.StartProcess(exec.Command(mountrdma, "127.0.0.1:/served", point, "--foreground", "-o", "port="+port+",mountport="+mountport))
	require.NoError(t, err)
	defer fuse.Kill()
	defer unix.Unmount(point, unix.MNT_DETACH)
	there := filepath.Join(point, "file")
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(there)
		return err == nil && string(b) == "early\n"
	}, alertLimit, 100*time.Millisecond)
	open, err := os.Open(there)
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, _ = os.ReadFile(there); return d.inForce(t) > 0 }, alertLimit, 100*time.Millisecond, "no delegation")
	fuse.Stop()
	// Not by a child: it would close its copy of open, and wait for the stopped program.
	late, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	require.NoError(t, late.Close())
	m.expectAlert(t, "NfsrdmaClientHangs", func() {})
	fuse.Signal(unix.SIGCONT)
	require.NoError(t, open.Close())
}

// inForce returns how many delegations clients hold.
func (d *liveDaemon) inForce(t *testing.T) int {
	t.Helper()
	out, err := exec.Command(filepath.Join(d.dir, "nfsrdmad"), "status", "--json", "--control", d.control).Output()
	require.NoError(t, err)
	var status struct {
		Grants struct {
			InForce int `json:"in_force"`
		}
	}
	require.NoError(t, json.Unmarshal(out, &status))
	return status.Grants.InForce
}
