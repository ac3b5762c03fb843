package main

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

// TestReasons checks the Reasons of MIT's statuses.
func TestReasons(t *testing.T) {
	for _, tt := range []struct {
		major uint32
		minor int32
		want  wire.Reason
	}{
		{13 << 16, -1765328377, wire.NoService},
		{13 << 16, -1765328352, wire.Expired},
		{11 << 16, 0, wire.Expired},
		{12 << 16, 0, wire.Expired},
		{13 << 16, -1765328347, wire.Clock},
		{13 << 16, -1765328237, wire.Clock},
		{13 << 16, -1765328228, wire.NoKDC},
		{13 << 16, -1765328230, wire.NoKDC},
		{13 << 16, -1765328189, wire.NoTicket},
		{7 << 16, 100003, wire.NoTicket},
		{9 << 16, 0, wire.Other},
		{13 << 16, -1765328353, wire.Other},
	} {
		assert.Equal(t, tt.want, failureReason(tt.major, uint32(tt.minor)), "%+v", tt)
	}
}

// TestTicketWords checks the messages for a cache without a valid ticket.
func TestTicketWords(t *testing.T) {
	reason, words := ticketFailure("FILE:/tmp/krb5cc_1001", 0)
	assert.Equal(t, wire.NoTicket, reason)
	assert.Equal(t, "no ticket (FILE:/tmp/krb5cc_1001): run kinit", words)
	reason, words = ticketFailure("FILE:/tmp/krb5cc_1001", uint64(time.Now().Add(-3*time.Minute-time.Second).Unix()))
	assert.Equal(t, wire.Expired, reason)
	assert.Equal(t, "your ticket expired 3 minutes ago (FILE:/tmp/krb5cc_1001): run kinit", words)
	for d, want := range map[time.Duration]string{
		-time.Second: "0 seconds", time.Second: "1 second", 59 * time.Second: "59 seconds", time.Minute: "1 minute",
		2*time.Hour - time.Second: "1 hour", 47 * time.Hour: "1 day", 480 * time.Hour: "20 days",
	} {
		assert.Equal(t, want, durationText(d))
	}
}

// skewError returns the KRB-ERROR with which an acceptor whose clock shows now rejects
// a token from MIT's library.
func skewError(t testing.TB, now time.Time) []byte {
	t.Helper()
	b := wiretest.Hex(t, "../../oncrpc/gss/krb5/testdata/aes256-cts-hmac-sha1-96.hex")
	var fields [][]byte
	for len(b) > 0 {
		n := int(binary.BigEndian.Uint16(b))
		fields, b = append(fields, b[2:2+n]), b[2+n:]
	}
	keytab := filepath.Join(t.TempDir(), "keytab")
	require.NoError(t, os.WriteFile(keytab, fields[1], 0o600))
	a, err := krb5.NewAcceptor(t.Context(), krb5.Config{Keytab: keytab, Now: func() time.Time { return now }})
	require.NoError(t, err)
	_, err = a.Accept(t.Context(), fields[2], nil)
	refusal, ok := errors.AsType[*gss.Error](err)
	require.True(t, ok)
	return refusal.Token
}

// TestClockWords checks that the server's time is read from its KRB-ERROR only.
func TestClockWords(t *testing.T) {
	at := time.Now().Add(90*24*time.Hour - 30*time.Second).Truncate(time.Second).UTC()
	token := skewError(t, at)
	got, ok := serverTime(token)
	require.True(t, ok)
	assert.Equal(t, at, got)
	assert.Equal(t, "the clocks of client and server differ by 129600 minutes (limit 5): set them", clockFailure(token))
	for n := range token {
		_, ok := serverTime(token[:n])
		assert.False(t, ok, "%d bytes", n)
	}
	other := append([]byte(nil), token...)
	other[13+2] = 2 // the identifier of an AP-REP
	_, ok = serverTime(other)
	assert.False(t, ok)
	assert.Equal(t, "the clocks of client and server differ by more than 5 minutes: set them", clockFailure(nil))
}

// FuzzServerTime parses arbitrary tokens.
func FuzzServerTime(f *testing.F) {
	f.Add(skewError(f, time.Unix(4e9, 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if at, ok := serverTime(b); !ok {
			assert.True(t, at.IsZero())
		}
	})
}

// TestJoinFailures checks that the sentence for root names kinit and the keytab.
func TestJoinFailures(t *testing.T) {
	noKeytab := checkKeytab("/nonexistent")
	assert.Same(t, noKeytab, joinFailures(nil, noKeytab), "a mount has no cache")
	got := joinFailures(&wire.Failure{Reason: wire.NoTicket, Text: "no ticket (FILE:/tmp/krb5cc_0): run kinit"}, noKeytab)
	assert.Equal(t, "no ticket (FILE:/tmp/krb5cc_0): run kinit; the keytab /nonexistent cannot be read (no such file or directory): correct its name or its permissions", got.Text)
	assert.Nil(t, checkKeytab(""))
}
