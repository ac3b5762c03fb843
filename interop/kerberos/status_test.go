//go:build interop

package kerberos

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A contextStatus is a daemon's view of its contexts.
type contextStatus struct {
	Contexts, Made, Dropped int
	Calls                   map[string]int
	BadVerifiers            int `json:"bad_verifiers"`
	Refused                 []struct {
		Reason string
		Count  int
	}
	List []struct {
		Principal string
		UID       int
	} `json:"context_list"`
}

func (d *kerberosDaemon) contextStatus(t *testing.T) contextStatus {
	t.Helper()
	out, err := exec.Command(d.program, "status", "--json", "--control", d.control).Output()
	require.NoError(t, err)
	var status struct{ Kerberos contextStatus }
	require.NoError(t, json.Unmarshal(out, &status), "%s", out)
	return status.Kerberos
}
