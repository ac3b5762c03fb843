//go:build interop

package live

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"image/png"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop"
)

// looks is how long the browser shows the page before it is read: a few looks of the
// page's script. The browser's clock is virtual.
const looks = 7000 // ms

// A liveDaemon is a running nfsrdmad with files in memory.
type liveDaemon struct {
	dir, rdma, tcp, page, control string
}

func startDaemon(t *testing.T, more ...string) *liveDaemon {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bin")
	require.NoError(t, interop.BuildPrograms(dir))
	d := &liveDaemon{dir: dir, control: filepath.Join(t.TempDir(), "control")}
	cmd := exec.Command(filepath.Join(dir, "nfsrdmad"), append([]string{
		"serve", "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--metrics", "127.0.0.1:0",
		"--control", d.control, "--state", t.TempDir(), "--no-root-squash", "mem:64MiB=/x",
	}, more...)...)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	p, err := interop.StartProcess(cmd)
	w.Close()
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	ready, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	address := func(name string) string {
		m := regexp.MustCompile(" " + name + `=(\S+)`).FindStringSubmatch(ready)
		require.NotNil(t, m, ready)
		return m[1]
	}
	d.rdma, d.tcp, d.page = address("rdma"), address("tcp"), "http://"+address("metrics")+"/"
	return d
}

// fileURL returns the URL of a file for mountrdma.
func (d *liveDaemon) fileURL(name string) string {
	_, port, _ := strings.Cut(d.tcp, ":")
	return "nfs://" + d.rdma + "/x/" + name + "?mountport=" + port
}

// callCounts returns the calls by program and procedure, as status --json has them.
func (d *liveDaemon) callCounts(t *testing.T) map[string]uint64 {
	t.Helper()
	out, err := exec.Command(filepath.Join(d.dir, "nfsrdmad"), "status", "--json", "--control", d.control).Output()
	require.NoError(t, err)
	var status struct {
		Procedures []struct {
			Program, Procedure string
			Calls              uint64
		}
	}
	require.NoError(t, json.Unmarshal(out, &status))
	all := make(map[string]uint64)
	for _, p := range status.Procedures {
		all[p.Program+" "+p.Procedure] = p.Calls
	}
	return all
}

// runChromium runs Chromium.
func runChromium(t *testing.T, args ...string) []byte {
	t.Helper()
	path, err := exec.LookPath("chromium")
	require.NoError(t, err, "scripts/setup soak installs it")
	cmd := exec.Command(path, append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + t.TempDir()}, args...)...) // the last of a flag counts
	cmd.WaitDelay = time.Second
	var says bytes.Buffer
	cmd.Stderr = &says
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &says)
	return out
}

// shownCalls returns the calls that the page shows, and their rates.
func shownCalls(t *testing.T, dom string) (calls map[string]uint64, rates map[string]float64) {
	t.Helper()
	calls, rates = make(map[string]uint64), make(map[string]float64)
	for _, row := range regexp.MustCompile(`(?s)<tr data-proc="([^"]*)".*?</tr>`).FindAllStringSubmatch(dom, -1) {
		td := regexp.MustCompile(`(?s)<td[^>]*>(.*?)</td>`).FindAllStringSubmatch(row[0], 3)
		n, err := strconv.ParseUint(td[1][1], 10, 64)
		require.NoError(t, err)
		rate, err := strconv.ParseFloat(td[2][1], 64)
		require.NoError(t, err)
		name := html.UnescapeString(row[1])
		calls[name], rates[name] = n, rate
	}
	return calls, rates
}

// TestPage looks at the page in Chromium: without a client, under load, in a narrow and
// a dark window, and without JavaScript. What the page shows must lie between two answers
// of status --json. Pictures are in the directory of LIVE_PICTURES, if that is set.
func TestPage(t *testing.T) {
	if os.Getenv("INTEROP_SOAK") == "" {
		t.Skip("INTEROP_SOAK is not set")
	}
	d := startDaemon(t)
	pictures := os.Getenv("LIVE_PICTURES")
	if pictures == "" {
		pictures = t.TempDir()
	}
	picture := func(name string, args ...string) {
		file := filepath.Join(pictures, name+".png")
		runChromium(t, append(args, "--screenshot="+file, d.page)...)
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		img, err := png.Decode(bytes.NewReader(b))
		require.NoError(t, err)
		colors := make(map[string]bool)
		for y := range img.Bounds().Dy() {
			for x := range img.Bounds().Dx() {
				colors[fmt.Sprint(img.At(x, y))] = true
			}
		}
		assert.Greater(t, len(colors), 10, "%s is empty", name)
	}
	script, dump := "--virtual-time-budget="+strconv.Itoa(looks), "--dump-dom"
	idle := string(runChromium(t, script, dump, d.page))
	assert.Contains(t, idle, "Nothing needs attention.")
	calls, _ := shownCalls(t, idle)
	assert.Empty(t, calls)
	picture("idle", "--window-size=1280,900")
	own := string(runChromium(t, script, dump, d.page+"?export=/x"))
	assert.Contains(t, own, `id="own"`, "a refresh keeps the export whose curves are shown")
	assert.Contains(t, own, "in the last 2 s")

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("content\n"), 1<<18), 0o644))
	mountrdma := filepath.Join(d.dir, "mountrdma")
	load := exec.Command("sh", "-c", `"$0" cp "$1" "$2" && while :; do "$0" cat "$2" >/dev/null; done`, mountrdma, file, d.fileURL("file"))
	p, err := interop.StartProcess(load)
	require.NoError(t, err)
	defer p.Kill()
	require.Eventually(t, func() bool { return d.callCounts(t)["nfs3 READ"] > 0 }, time.Minute, 10*time.Millisecond)

	check := func(way, dom string, before map[string]uint64) {
		after := d.callCounts(t)
		calls, rates := shownCalls(t, dom)
		for name, n := range before {
			assert.True(t, n <= calls[name] && calls[name] <= after[name], "%s: %s: %d, status: %d to %d", way, name, calls[name], n, after[name])
		}
		if way == "plain" { // with the browser's virtual clock, 2 s may be too short for a READ
			assert.Positive(t, rates["nfs3 READ"])
		}
		assert.Equal(t, way != "plain", strings.Contains(dom, "in the last 2 s"), "%s: rates", way)
	}
	for name, args := range map[string][]string{
		"load":   {"--window-size=1280,1400", script},
		"narrow": {"--window-size=420,1600", script},
		"dark":   {"--window-size=1280,1400", "--force-dark-mode", script},
	} {
		before := d.callCounts(t)
		check(name, string(runChromium(t, append(args, dump, d.page)...)), before)
		picture(name, args...)
	}
	// Without JavaScript, the browser has what the daemon sends.
	profile := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(profile, "Default"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(profile, "Default", "Preferences"), []byte(`{"profile":{"default_content_setting_values":{"javascript":2}}}`), 0o644))
	picture("plain", "--window-size=1280,1400", "--user-data-dir="+profile)
	before := d.callCounts(t)
	resp, err := http.Get(d.page)
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	check("plain", string(body), before)

	full := exec.Command(mountrdma, "cp", "/dev/zero", d.fileURL("zero"))
	out, err := full.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "NFS3ERR_NOSPC")
	assert.Contains(t, string(runChromium(t, dump, d.page)), "NFS3ERR_NOSPC: the file system is full.")
	picture("full", "--window-size=1280,900")
}
