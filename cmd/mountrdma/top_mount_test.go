package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	statsBefore = `device server:/x mounted on /mnt with fstype nfs statvers=1.1
	age:	10
	RPC iostats version: 1.1  p/v: 100003/3 (nfs)
	per-op statistics
	        NULL: 1 1 0 0 0 0 0 0 0
	        READ: 100 100 0 1024 102400 0 50 50 0
	       WRITE: 10 10 0 10240 0 0 10 10 0
	      ACCESS: 5 5 0 0 0 0 0 0 0

`
	statsAfter = `device server:/x mounted on /mnt with fstype nfs statvers=1.1
	age:	12
	RPC iostats version: 1.1  p/v: 100003/3 (nfs)
	per-op statistics
	        NULL: 1 1 0 0 0 0 0 0 0
	        READ: 300 302 0 1024 307200 4 150 250 3
	       WRITE: 10 10 0 10240 0 0 10 10 0
	      ACCESS: 5 5 0 0 0 0 0 0 0

`
)

// TestTopMountRates checks the printed rates.
func TestTopMountRates(t *testing.T) {
	at := time.Unix(100, 0)
	before, err := parseMountStats(statsBefore, at)
	require.NoError(t, err)
	after, err := parseMountStats(statsAfter, at.Add(2*time.Second))
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, before.printText(&b, "/mnt", new(mountCounters), false, false))
	require.NoError(t, after.printText(&b, "/mnt", before, false, true))
	assert.Equal(t, `server:/x on /mnt, mounted for 10s

OPERATION         OPS/s       kB/s      kB/OP   RETRANS    RTT ms    EXE ms  QUEUE ms    ERRORS
NULL                0.1        0.0      0.000         0     0.000     0.000     0.000         0
READ               10.0       10.1      1.010         0     0.500     0.500     0.000         0
WRITE               1.0        1.0      1.000         0     1.000     1.000     0.000         0
ACCESS              0.5        0.0      0.000         0     0.000     0.000     0.000         0
all                11.6       11.1      0.957         0     0.517     0.517     0.000         0

server:/x on /mnt, mounted for 12s

OPERATION         OPS/s       kB/s      kB/OP   RETRANS    RTT ms    EXE ms  QUEUE ms    ERRORS
READ              100.0      100.0      1.000         2     0.500     1.000     0.020         3
WRITE               0.0        0.0      0.000         0     0.000     0.000     0.000         0
all               100.0      100.0      1.000         2     0.500     1.000     0.020         3
`, b.String())

	young, err := parseMountStats(strings.Replace(statsBefore, "age:	10", "age:	0", 1), at.Add(4*time.Second))
	require.NoError(t, err)
	for _, last := range []*mountCounters{new(mountCounters), after} {
		b.Reset()
		require.NoError(t, young.printText(&b, "/mnt", last, false, false))
		assert.Regexp(t, `(?m)^READ +100\.0 +101\.0 `, b.String(), "in its first second, perhaps after another mount")
	}

	for _, text := range []string{"", "\tper-op statistics\n\tREAD: 1 2\n", strings.Replace(statsAfter, "302", "x", 1)} {
		_, err := parseMountStats(text, at)
		assert.Error(t, err, text)
	}
}

// TestTopMount shows a mount while it is used.
func TestTopMount(t *testing.T) {
	r, point := newMountTest(t)
	cmd := startForeground(t, r.addr+":/x/d", point, "-o", "soft")
	first := decodeObject(t, mustRun(t, "top", point, "-n", "1", "--json"))
	assert.Equal(t, point, first["mount"])
	assert.Equal(t, r.addr+":/x/d", first["device"])
	writeFile(t, make([]byte, 5000), point, "g")
	_, err := os.Stat(filepath.Join(point, "nosuch"))
	require.ErrorIs(t, err, os.ErrNotExist)

	out := mustRun(t, "top", point, "-n", "2", "--interval", "100ms", "--json")
	d := json.NewDecoder(bytes.NewBufferString(out))
	updates := 0
	for ; ; updates++ {
		var u mountDocument
		if err := d.Decode(&u); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		counts := make(map[string]opCounters)
		for _, op := range u.Operations {
			counts[op.Name] = op
		}
		assert.Positive(t, counts["WRITE"].Calls)
		assert.GreaterOrEqual(t, counts["WRITE"].Out, uint64(5000))
		assert.Positive(t, counts["LOOKUP"].Errors)
	}
	assert.Equal(t, 2, updates)
	assert.Regexp(t, `(?m)^WRITE +[\d.]+ `, mustRun(t, "top", point, "-n", "1"))
	mustRun(t, "umount", point)
	require.NoError(t, cmd.Wait())
	assert.NotEmpty(t, mustFail(t, "top", point, "-n", "1"), "no mount")
}
