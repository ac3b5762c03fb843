package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSeries(t *testing.T) {
	for _, tt := range []struct {
		s                 series
		low, median, high float64
	}{
		{nil, 0, 0, 0},
		{series{3}, 3, 3, 3},
		{series{5, 1, 2}, 1, 2, 5},
		{series{4, 1, 2, 8}, 1, 3, 8},
	} {
		low, median, high := tt.s.minMedianMax()
		assert.Equal(t, []float64{tt.low, tt.median, tt.high}, []float64{low, median, high})
	}
	assert.Equal(t, series{2, 0.5}, series{4, 2, 9}.ratios(series{2, 4}), "unpaired rows are left out")
}

// TestRow checks that the sides alternate, and that each round's results stay a
// pair.
func TestRow(t *testing.T) {
	var order string
	w := &testbed{opts: new(options)}
	side := func(name string, bytes float64) sideFunc {
		return func(*testbed) (*result, error) {
			order += name
			return &result{Seconds: 1, Bytes: bytes}, nil
		}
	}
	r := &row{name: "n", against: "l", ours: side("o", 3e9), limit: side("l", 4e9), views: []comparedValue{{"", "GB/s", gigabytesPerSecond, atLeast(0.8)}, {"v", "GB/s", gigabytesPerSecond, goal{}}}}
	for range 3 {
		require.NoError(t, r.measure(w))
	}
	assert.Equal(t, "olloo"+"l", order)
	alone := &row{name: "a", ours: side("", 1024), views: []comparedValue{{"m", "B", func(r *result) float64 { return r.Bytes }, atMost(2000)}}}
	require.NoError(t, alone.measure(w))
	lacking := &row{name: "z", against: "l", missing: "no such thing", ours: side("x", 1), views: []comparedValue{{"", "B", gigabytesPerSecond, atLeast(1)}}}
	require.NoError(t, lacking.measure(w))
	assert.NotContains(t, order, "x")
	for _, r := range []*row{r, alone} {
		clear(r.disturbances) // regardless of this machine's load
	}
	assert.Equal(t, `| what | against | unit | ours: min / median / max | limit: min / median / max | ratio: min / median / max | goal | disturbed rounds |
| --- | --- | --- | ---: | ---: | ---: | --- | --- |
| n | l | GB/s | 3.00 / 3.00 / 3.00 | 4.00 / 4.00 / 4.00 | 0.750 / 0.750 / 0.750 | at least 0.8, **missed** |  |
| n: v | l | GB/s | 3.00 / 3.00 / 3.00 | 4.00 / 4.00 / 4.00 | 0.750 / 0.750 / 0.750 |  |  |
| a: m |  | B | 1024 / 1024 / 1024 |  |  | at most 2000 |  |
| z | l | B | no such thing |  |  |  |  |
`, formatTable([]*row{r, alone, lacking}))
}

// TestRows checks that a name selects its row, in a document and for benchstat.
func TestRows(t *testing.T) {
	names := make(map[string]bool)
	for _, r := range allRows() {
		assert.False(t, names[r.name], r.name)
		names[r.name] = true
		assert.NotEmpty(t, r.views, r.name)
		assert.Equal(t, r.against == "", r.limit == nil, r.name)
	}
}

func TestReplace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "doc.md")
	require.NoError(t, os.WriteFile(name, []byte("before\n"+tableBegin+"old\n"+tableEnd+"after\n"), 0o644))
	for range 2 {
		require.NoError(t, replaceTable(name, "new\n"))
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, "before\n"+tableBegin+"\nnew\n\n"+tableEnd+"after\n", string(text))
	}
	require.NoError(t, os.WriteFile(name, []byte("text"), 0o644))
	assert.ErrorContains(t, replaceTable(name, "new"), "lacks the markers for the table")
}

// TestDocument checks that the document has the markers.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/performance-log/tables.md")
	require.NoError(t, err)
	assert.Contains(t, string(text), tableBegin)
	assert.Contains(t, string(text), tableEnd)
}

// TestClock checks that a pause shifts all times.
func TestClock(t *testing.T) {
	c, err := startClock("1h")
	require.NoError(t, err)
	start, end := c.start, c.end
	assert.True(t, c.recordOp(5))
	require.NoError(t, c.runUnmeasured(func() error { time.Sleep(time.Millisecond); return nil }))
	assert.GreaterOrEqual(t, c.start.Sub(start), time.Millisecond)
	assert.Equal(t, c.end.Sub(end), c.start.Sub(start))
	assert.Equal(t, 5, c.bytes)
	c.end = c.start
	assert.False(t, c.recordOp(0))
	_, err = startClock("soon")
	assert.Error(t, err)
}

// TestLaps checks that the measurement begins with the second lap, and that each
// lap starts at the file's start.
func TestLaps(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer f.Close()
	var at []int64
	k, err := runLaps(f, "0s", func(off int64) error {
		at = append(at, off)
		return nil
	})
	require.NoError(t, err)
	assert.Len(t, at, lapSize/blockSize+1)
	assert.EqualValues(t, lapSize-blockSize, at[lapSize/blockSize-1])
	assert.Zero(t, at[lapSize/blockSize])
	assert.Equal(t, blockSize, k.bytes)
	_, err = runLaps(f, "0s", func(int64) error { return os.ErrInvalid })
	assert.ErrorIs(t, err, os.ErrInvalid)
}

// TestReno checks that both ends of a limit's connection have Reno, whatever the
// host's default is.
func TestReno(t *testing.T) {
	l, err := listenReno()
	require.NoError(t, err)
	defer l.Close()
	near, err := dialReno(l.Addr().String())
	require.NoError(t, err)
	defer near.Close()
	far, err := l.Accept()
	require.NoError(t, err)
	defer far.Close()
	for _, end := range []net.Conn{near, far} {
		c, err := end.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, c.Control(func(fd uintptr) {
			name, err := unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
			assert.NoError(t, err)
			assert.Equal(t, "reno", name)
		}))
	}
}
