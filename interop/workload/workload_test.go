package workload

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLocal runs the unprivileged steps on the local file system: a failure
// here is the workload's fault.
func TestLocal(t *testing.T) {
	var log bytes.Buffer
	require.NoError(t, Run(t.TempDir(), &log,
		"truncate", "rename", "links", "names", "errors"))
	assert.Equal(t, 5, strings.Count(log.String(), "step "))
}

// TestEdges checks that pieces of a local file have the announced lengths.
func TestEdges(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Edges(dir, 1024, 4096))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1+2*8+8+7+2, "pieces, files, links but the longest, and what is as it is")
	info, err := os.Stat(dir + "/pieces")
	require.NoError(t, err)
	assert.EqualValues(t, 4096+edgeAbove, info.Size())
}

func TestRunReports(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(dir+"/links", 0o755))
	err := Run(dir, io.Discard, "links", "errors")
	assert.ErrorContains(t, err, "step links")
	assert.NotContains(t, err.Error(), "step errors")
	assert.DirExists(t, dir+"/errors", "it goes on")
}

func TestFill(t *testing.T) {
	whole := patternBytes(77, 1000)
	for off := range 40 {
		for n := range 40 {
			p := make([]byte, n)
			fillPattern(p, 77, int64(off))
			require.Equal(t, whole[off:off+n], p)
		}
	}
	assert.NotEqual(t, whole, patternBytes(78, 1000))
}

func TestDiffer(t *testing.T) {
	assert.Empty(t, findDifference([]byte("same"), []byte("same")))
	assert.Equal(t, "byte 1 of 2 is 0x63 instead of 0x62", findDifference([]byte("ab"), []byte("ac")))
	assert.Equal(t, "1 bytes instead of 2", findDifference([]byte("ab"), []byte("a")))
}

func TestManifest(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/b\xff", []byte("abc"), 0o640))
	require.NoError(t, os.Chmod(dir+"/b\xff", 0o640))
	require.NoError(t, os.Chtimes(dir+"/b\xff", time.Unix(1, 2), time.Unix(3, 4)))
	require.NoError(t, os.Symlink("x\n", dir+"/a"))
	manifest := func() []string {
		var b strings.Builder
		require.NoError(t, Manifest(dir, &b))
		return strings.Split(b.String(), "\n")
	}
	was := manifest()
	require.Len(t, was, 4)
	assert.Regexp(t, `^"\." 40\d{3} \d+:\d+ links=\d+ mtime=\d+\.\d{9} rdev=`, was[0])
	assert.Regexp(t, `^"a" 120777 .* -> "x\\n"$`, was[1])
	assert.Regexp(t, `^"b\\xff" 100640 \d+:\d+ links=1 mtime=3\.000000004 size=3 sha256=ba7816bf`, was[2])

	require.NoError(t, os.WriteFile(dir+"/b\xff", []byte("abd"), 0o640))
	require.NoError(t, os.Chtimes(dir+"/b\xff", time.Unix(1, 2), time.Unix(3, 4)))
	assert.NotEqual(t, was[2], manifest()[2], "another byte")
}

func TestHold(t *testing.T) {
	dir := t.TempDir()
	in, lines := io.Pipe()
	out, answers := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Hold(dir, in, answers)
		answers.Close()
	}()
	go func() {
		io.WriteString(lines, "\n")
		os.Rename(dir+"/"+HoldMoved, dir+"/"+HoldMovedTo)
		io.WriteString(lines, "\n")
		lines.Close()
	}()
	said, err := io.ReadAll(out)
	require.NoError(t, err)
	require.NoError(t, <-done)
	assert.Regexp(t, `^held\nchecked after \d+ rounds\nchecked after \d+ rounds\n$`, string(said))
}

// TestHoldSpoilt checks that a change of a file in use by Hold is detected.
func TestHoldSpoilt(t *testing.T) {
	dir := t.TempDir()
	in, lines := io.Pipe()
	out, answers := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Hold(dir, in, answers)
		in.Close()
		answers.Close()
	}()
	b := make([]byte, 5)
	_, err := io.ReadFull(out, b) // "held\n"
	require.NoError(t, err)
	go io.Copy(io.Discard, out)
	f, err := os.OpenFile(dir+"/fixed", os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("!"), 1234)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	go io.WriteString(lines, "\n")
	assert.ErrorContains(t, <-done, "byte 1234")
}

func TestSoak(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	require.NoError(t, Soak(dir, dir, 200*time.Millisecond, &log))
	assert.Contains(t, log.String(), "files of 1048573 bytes written")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestSoakVerify(t *testing.T) {
	s := &soakFile{name: "f"}
	verify := func(got []byte, oldest, newest int64) error {
		return runChecks(func(t *T) { s.verifyContent(t, got, oldest, newest) })
	}
	p3, p4 := patternBytes(s.patternFor(3), 9999), patternBytes(s.patternFor(4), 9999)
	mixed := append(bytes.Clone(p4[:5001]), p3[5001:]...)
	assert.NoError(t, verify(p3, 3, 3))
	assert.NoError(t, verify(p3, 3, 4))
	assert.NoError(t, verify(p4, 3, 4))
	assert.NoError(t, verify(mixed, 3, 4))
	assert.ErrorContains(t, verify(p4, 3, 3), "generations 3 to 3")
	mixed[5000] ^= 1
	assert.ErrorContains(t, verify(mixed, 3, 4), ": 1 bytes, the first at 5000,")
}

// TestLedger checks that each promise holds, and that a file that breaks its
// promise is detected.
func TestLedger(t *testing.T) {
	dir := t.TempDir()
	in, stop := io.Pipe()
	promises, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Ledger(dir, in, out)
		out.Close()
	}()
	var name string
	var generation int
	var size int64
	lines, kept := bufio.NewScanner(promises), 0
	for lines.Scan() {
		_, err := fmt.Sscanf(lines.Text(), "%s %d %d", &name, &generation, &size)
		require.NoError(t, err, lines.Text())
		if kept++; kept == 20 {
			stop.Close()
		}
	}
	require.NoError(t, <-done)
	assert.Greater(t, kept, 19)
	require.NoError(t, LedgerHolds(dir, name, generation, size))

	assert.ErrorContains(t, LedgerHolds(dir, name, generation, size+1), "bytes promised")
	assert.ErrorContains(t, LedgerHolds(dir, name, generation+1, size), "byte 0 of")
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{0, 0}, size-2)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	assert.ErrorContains(t, LedgerHolds(dir, name, generation, size), "bytes promised")
}
