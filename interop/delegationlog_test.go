//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDelegationLog makes one mount append to a log that another mount follows.
// The reader opens and reads the log repeatedly, and must see each line as soon
// as it is written. A line costs at most one recall, and looks in between must
// cost the server nothing.
func TestDelegationLog(t *testing.T) {
	const lines, looks = 100, 5
	buildOnce(t)
	control := filepath.Join(t.TempDir(), "control")
	d := startDaemon(t, "--no-root-squash", "--exclusive", "--control", control)
	s := mountServer{addr: d.rdma, guestSite: d.guestSite()}
	writer, follower := s.mountFUSE(t), s.mountFUSE(t)
	var want strings.Builder
	log := filepath.Join(follower.point, "log")
	write := func(line string) {
		f, err := os.OpenFile(filepath.Join(writer.point, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		_, err = f.WriteString(line)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		want.WriteString(line)
	}
	look := func() {
		got, err := os.ReadFile(log)
		require.NoError(t, err)
		require.Equal(t, want.String(), string(got))
	}
	write("line 0\n")
	look()
	before := statusOf(t, control)
	for n := range lines {
		write(fmt.Sprintf("line %d\n", n+1))
		for range looks {
			look()
		}
	}
	after := statusOf(t, control)
	recalls := after.Grants.Recalled - before.Grants.Recalled
	t.Logf("%d lines, %d opens: %d recalls, %d calls", lines, lines*looks, recalls, after.countCalls()-before.countCalls())
	assert.Positive(t, recalls, "the follower holds the log")
	assert.LessOrEqual(t, recalls, lines)
	eventually(t, func() bool { // it does not ask again at once after a recall
		quiet := statusOf(t, control).countCalls()
		for range looks {
			look()
		}
		return statusOf(t, control).countCalls() == quiet
	}, daemonLimit, pollEvery, "a look at unchanged files needs no call")
	writer.unmountFUSE()
	follower.unmountFUSE()
}

// A status is the output of nfsrdmad status, as far as these tests need.
type status struct {
	Procedures []struct {
		Program, Procedure string
		Calls              int
	}
	Grants struct{ Granted, Recalled, Returned, Silent int }
	NFS4   struct {
		Writes   int `json:"write_delegations"`
		Granted  int `json:"delegations_granted"`
		Recalled int `json:"delegations_recalled"`
		Revoked  int `json:"delegations_revoked"`
	}
}

// countCalls returns the number of calls that the server has answered.
func (s *status) countCalls() (sum int) {
	for _, p := range s.Procedures {
		sum += p.Calls
	}
	return sum
}

// callsOf returns the number of calls of a procedure.
func (s *status) callsOf(program, procedure string) int {
	for _, p := range s.Procedures {
		if p.Program == program && p.Procedure == procedure {
			return p.Calls
		}
	}
	return 0
}

func statusOf(t *testing.T, control string) *status {
	t.Helper()
	out, err := exec.Command(programPath("nfsrdmad"), "status", "--json", "--control", control).Output()
	require.NoError(t, err)
	s := new(status)
	require.NoError(t, json.Unmarshal(out, s))
	return s
}
