package interop

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const greeting = `{"QMP": {"version": {}, "capabilities": ["oob"]}}` + "\n"

func TestForwards(t *testing.T) {
	// The answer of qemu 7.2, with an event in between.
	in := greeting + `{"return": {}}` + "\n" +
		`{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "RESUME"}` + "\n" +
		`{"return": "Hub -1 (n0):\r\n  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\r\n` +
		`  TCP[HOST_FORWARD]   9       127.0.0.1 32989       10.0.2.15  7777     0     0\r\n` +
		`  TCP[HOST_FORWARD]   8       127.0.0.1 44893       10.0.2.15  2049     0     0\r\n` +
		`  TCP[ESTABLISHED]   12       127.0.0.1 44893       10.0.2.15  2049     0     0\r\n"}` + "\n"
	var out bytes.Buffer
	q, err := newQMP(strings.NewReader(in), &out)
	require.NoError(t, err)
	ports, err := q.listForwards()
	require.NoError(t, err)
	assert.Equal(t, map[int]int{7777: 32989, 2049: 44893}, ports)
	assert.Contains(t, out.String(), `"execute":"qmp_capabilities"`)
	assert.Contains(t, out.String(), `"command-line":"info usernet"`)
}

func TestQMPRefused(t *testing.T) {
	_, err := newQMP(strings.NewReader(greeting+`{"error": {"class": "x", "desc": "not now"}}`), new(bytes.Buffer))
	assert.ErrorContains(t, err, "not now")
	_, err = newQMP(strings.NewReader(""), new(bytes.Buffer))
	assert.Error(t, err)
}
