package main

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A reportHTML is a page of --report.
type reportHTML string

// dataValue returns the number in the data element with an id.
func (p reportHTML) dataValue(t *testing.T, id string) float64 {
	t.Helper()
	m := regexp.MustCompile(`<data id="` + id + `" value="([^"]*)">`).FindStringSubmatch(string(p))
	require.NotNil(t, m, id)
	n, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	return n
}

// tableRows returns the rows of the table with an id, by name.
func (p reportHTML) tableRows(t *testing.T, id string) map[string]string {
	t.Helper()
	table := regexp.MustCompile(`(?s)<table id="` + id + `">(.*?)</table>`).FindStringSubmatch(string(p))
	require.NotNil(t, table, id)
	all := make(map[string]string)
	for _, row := range regexp.MustCompile(`<tr><th scope="row">(.*?)</th><td>(.*?)</td></tr>`).FindAllStringSubmatch(table[1], -1) {
		all[html.UnescapeString(row[1])] = html.UnescapeString(row[2])
	}
	return all
}

// TestBenchReport compares the page with the object of --json of the same run, and
// with what the server has granted.
func TestBenchReport(t *testing.T) {
	r := newTestServer(t, func(s *rpcrdma.Server, c *iwarp.Config, _ *nfsserver.Config) {
		s.Inline, s.Credits = 2048, 7
		c.Markers = true
	})
	writeFile(t, randomBytes(1<<20, 1), r.dir, "<f>&")
	dir := t.TempDir()
	name := filepath.Join(dir, "report.html")
	require.NoError(t, os.WriteFile(name, []byte("an earlier report"), 0o600))
	o := decodeObject(t, mustRun(t, "bench", r.url+"/<f>&", "--op=randread", "--block=4KiB", "--depth=3", "--time=50ms", "--json", "--crc=on", "--report", name))
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	page := reportHTML(b)
	for _, id := range []string{"MBps", "iops", "ops", "bytes", "seconds", "client_cpu_s"} {
		assert.Equal(t, o[id], page.dataValue(t, id), id)
	}
	for id, want := range o["lat_us"].(map[string]any) {
		assert.Equal(t, want, page.dataValue(t, id), id)
	}
	calls := 0
	for _, m := range regexp.MustCompile(`class="n calls">(\d+)<`).FindAllStringSubmatch(string(page), -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		calls += n
	}
	assert.EqualValues(t, o["ops"], calls, "the table has all calls")
	assert.Equal(t, strings.Count(string(page), `<rect class="bar"`), strings.Count(string(page), `class="n calls"`), "the picture has the bars of the table")

	agreed := page.tableRows(t, "agreed")
	for name, want := range map[string]string{
		"NFS version": "3", "security": "sys", "TLS": "none", "CRC": "on", "markers": "on", "credits": "7",
		"inline thresholds": "2048 bytes to the server, 2048 from it",
	} {
		assert.Equal(t, want, agreed[name], name)
	}
	asked := page.tableRows(t, "asked")
	assert.Equal(t, "3 on each connection", asked["calls in flight"])
	assert.Equal(t, "4096 bytes, 128", asked["inline, credits"])
	assert.Contains(t, html.UnescapeString(string(page)), r.url+"/<f>&")
	assert.NotContains(t, string(page), "<f>", "names are escaped")
	assert.NotRegexp(t, `(?i)<script|https?://|url\(`, string(page), "nothing from elsewhere")
}

// TestBenchReportFile checks that a measurement that fails leaves an earlier report, and
// nothing else, and that a file that cannot be written shows before the measurement.
func TestBenchReportFile(t *testing.T) {
	r := newTestServer(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "report.html")
	require.NoError(t, os.WriteFile(name, []byte("an earlier report"), 0o600))
	mustFail(t, "bench", r.url+"/missing", "--report", name)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "an earlier report", string(b))

	link := filepath.Join(t.TempDir(), "link.html")
	require.NoError(t, os.Symlink(name, link))
	mustRun(t, "bench", r.url, "--op=null", "--depth=1", "--time=1ms", "--report", link)
	at, err := os.Lstat(link)
	require.NoError(t, err)
	assert.Equal(t, os.ModeSymlink, at.Mode().Type(), "the link stays")
	at, err = os.Lstat(name)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), at.Mode(), "others may not read it, as before")
	assert.NotEqual(t, int64(len("an earlier report")), at.Size())

	before := r.calls.Load()
	absent := filepath.Join(dir, "no", "report.html")
	assert.Equal(t, "mountrdma: --report "+absent+": no such file or directory\n", mustFail(t, "bench", r.url, "--op=null", "--report", absent))
	assert.Equal(t, "mountrdma: --report "+dir+": is no regular file\n", mustFail(t, "bench", r.url, "--op=null", "--report", dir))
	assert.Equal(t, before, r.calls.Load())

	mustRun(t, "bench", r.url, "--op=null", "--depth=1", "--time=1ms", "--report", name)
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, names, 1)
	b, err = os.ReadFile(name)
	require.NoError(t, err)
	assert.NotContains(t, string(b), `id="MBps"`, "no data were moved")
}

// TestBenchReportLost checks that a report that cannot be written loses neither the
// measurement nor the disk space of an incomplete report.
func TestBenchReportLost(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "report.html")
	page, err := openReport(name)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(name, 0o755)) // after openReport
	assert.ErrorContains(t, page.commit([]byte("text")), "--report "+name)
	page.discard()
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, names, 1, "only the directory")

	r := newTestServer(t)
	name = filepath.Join(t.TempDir(), "report.html")
	done := make(chan error, 1)
	go func() {
		for r.calls.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		done <- os.Mkdir(name, 0o755)
	}()
	status, stdout, stderr := runCommand(t, "bench", r.url, "--op=null", "--depth=1", "--time=200ms", "--json", "--report", name)
	require.NoError(t, <-done)
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, stderr, "--report "+name)
	assert.Positive(t, decodeObject(t, stdout)["ops"])
}
