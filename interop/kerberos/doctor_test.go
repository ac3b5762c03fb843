//go:build interop

package kerberos

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/doctor"
)

// runDoctor has mountrdma doctor look at an export by Kerberos as a user, and returns what it
// finds of that.
func (h *clientHost) runDoctor(uid int, addr string) (f doctor.Finding) {
	h.Helper()
	cmd := commandAs(uid, filepath.Dir(h.helper)+"/mountrdma", "doctor", "--json", "--sec", "krb5", "nfs://localhost:"+portOf(h.T, addr)+"/x")
	cmd.Env = append(os.Environ(), "KRB5_CONFIG="+h.dir+"/krb5.conf")
	out, err := cmd.Output()
	if err != nil { // what fails is in the list
		require.ErrorAs(h, err, new(*exec.ExitError))
	}
	var list []doctor.Finding
	require.NoError(h, json.Unmarshal(out, &list), "%s", out)
	for _, one := range list {
		assert.Equal(h, one.Grade == doctor.OK, one.Remedy == "", one)
		if one.Check == "export" {
			f = one
		}
	}
	require.NotEmpty(h, f, list)
	return f
}

// TestKerberosDoctor has the doctor look for a user with a ticket, and for others without one,
// with one that has ended, and with one whose KDC does not answer.
func TestKerberosDoctor(t *testing.T) {
	h := newMountHost(t)
	d := newDaemon(t, h.testRealm, "krb5")
	const alice, ended, none, alone = 41001, 41002, 41003, 41004
	h.getTicket("alice", ended, "-l", "1s")
	h.getTicket("alice", alice)
	assert.Equal(t, doctor.Finding{Check: "export", Grade: doctor.OK, Found: "this host may mount /x, sec=krb5"}, h.runDoctor(alice, d.RDMA))
	assert.Equal(t, doctor.Finding{
		Check: "export", Grade: doctor.Fail, Found: "export /x, sec=krb5: user 41003: no ticket (FILE:" + h.cacheName(none) + ")", Remedy: "run kinit",
	}, h.runDoctor(none, d.RDMA))
	f := h.runDoctor(ended, d.RDMA)
	for until := time.Now().Add(mountLimit); f.Grade == doctor.OK && time.Now().Before(until); { // the server permits clocks that differ
		f = h.runDoctor(ended, d.RDMA)
	}
	assert.Equal(t, []any{doctor.Fail, "run kinit"}, []any{f.Grade, f.Remedy})
	assert.Regexp(t, `^export /x, sec=krb5: user 41002: your ticket expired \d+ seconds? ago \(FILE:`+h.cacheName(ended)+`\)$`, f.Found)

	h.getTicket("bob", alone)
	h.kdc.Kill()
	f = h.runDoctor(alone, d.RDMA)
	assert.Equal(t, doctor.Fail, f.Grade)
	assert.Contains(t, f.Found, "export /x, sec=krb5: user 41004: no KDC responds")
	assert.Contains(t, f.Remedy, "check /etc/krb5.conf and the network path to the KDC")
}
