package main

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

// Major statuses (RFC 2744, Section 3.9.1) and minor ones: errors of RFC 4120,
// Section 7.5.9, and of MIT's library, both as offsets in its error table.
const (
	majorNoCred   = 7
	majorExpired  = 11
	majorEnded    = 12 // GSS_S_CONTEXT_EXPIRED
	errorTable    = -1765328384
	unknownServer = 7   // KDC_ERR_S_PRINCIPAL_UNKNOWN
	ticketExpired = 32  // KRB_AP_ERR_TKT_EXPIRED
	clockSkew     = 37  // KRB_AP_ERR_SKEW
	noRealm       = 154 // KRB5_REALM_UNKNOWN
	noKDC         = 156 // KRB5_KDC_UNREACH
	kdcSkew       = 147 // KRB5_KDCREP_SKEW
	noCache       = 195 // KRB5_FCC_NOFILE
)

// failureReason returns the Reason for the statuses of a GSS-API function.
func failureReason(major, minor uint32) wire.Reason {
	switch int64(int32(minor)) - errorTable {
	case unknownServer:
		return wire.NoService
	case ticketExpired:
		return wire.Expired
	case clockSkew, kdcSkew:
		return wire.Clock
	case noRealm, noKDC:
		return wire.NoKDC
	case noCache:
		return wire.NoTicket
	}
	switch major >> 16 & 0xff { // routine errors
	case majorNoCred:
		return wire.NoTicket
	case majorExpired, majorEnded:
		return wire.Expired
	}
	return wire.Other
}

// withRemedy returns a message with a remedy that includes the library's text.
func withRemedy(reason wire.Reason, service, words string) string {
	switch reason {
	case wire.NoService:
		return fmt.Sprintf("the KDC does not know %s: mount the server by the name in its keytab, or add the principal (%s)", service, words)
	case wire.NoKDC:
		return fmt.Sprintf("no KDC responds: check /etc/krb5.conf and the network path to the KDC (%s)", words)
	case wire.Clock:
		return fmt.Sprintf("the clocks of this machine and the KDC differ by more than 5 minutes: set them (%s)", words)
	}
	return words
}

// ticketFailure returns why a credential cache has no valid ticket. ended is the expiry
// of its last ticket in seconds since 1970, or 0 if there was none.
func ticketFailure(cache string, ended uint64) (wire.Reason, string) {
	if ended == 0 {
		return wire.NoTicket, fmt.Sprintf("no ticket (%s): run kinit", cache)
	}
	return wire.Expired, fmt.Sprintf("your ticket expired %s ago (%s): run kinit", durationText(time.Since(time.Unix(int64(ended), 0))), cache)
}

// checkKeytab returns a failure if a keytab cannot be read.
func checkKeytab(keytab string) *wire.Failure {
	if keytab == "" {
		return nil
	}
	err := unix.Access(keytab, unix.R_OK)
	if err == nil {
		return nil
	}
	return &wire.Failure{Reason: wire.NoTicket, Text: fmt.Sprintf("the keytab %s cannot be read (%v): correct its name or its permissions", keytab, err)}
}

// joinFailures returns the failure if neither a user's caches nor the keytab have a ticket.
// noCache, which may be nil, names kinit as the remedy.
func joinFailures(noCache, noKeytab *wire.Failure) *wire.Failure {
	if noCache == nil {
		return noKeytab
	}
	both := *noCache
	both.Text += "; " + noKeytab.Text
	return &both
}

// durationText returns a duration in its largest unit.
func durationText(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if d >= unit.size {
			return countText(int(d/unit.size), unit.name)
		}
	}
	return countText(int(max(d, 0)/time.Second), "second")
}

// countText returns a number with its unit, in the plural unless n is 1.
func countText(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// clockFailure returns how far the clocks of client and server differ, according to the
// server's KRB-ERROR.
func clockFailure(answer []byte) string {
	server, ok := serverTime(answer)
	if !ok {
		return "the clocks of client and server differ by more than 5 minutes: set them"
	}
	minutes := int(math.Ceil(math.Abs(time.Until(server).Minutes())))
	return fmt.Sprintf("the clocks of client and server differ by %s (limit 5): set them", countText(minutes, "minute"))
}

// serverTime returns the server's time (stime) in a framed KRB-ERROR (RFC 4120, Section
// 5.9.1; RFC 4121, Section 4.1).
func serverTime(token []byte) (time.Time, bool) {
	var frame, body, message, fields cryptobyte.String
	var kind uint16
	input := cryptobyte.String(token)
	if !input.ReadASN1(&frame, asn1.Tag(0).Constructed()|0x60) || !frame.SkipASN1(asn1.OBJECT_IDENTIFIER) ||
		!frame.ReadUint16(&kind) || kind != 0x0300 {
		return time.Time{}, false
	}
	if body = frame; !body.ReadASN1(&message, asn1.Tag(0x7e)) || !message.ReadASN1(&fields, asn1.SEQUENCE) {
		return time.Time{}, false
	}
	for !fields.Empty() {
		var field cryptobyte.String
		var tag asn1.Tag
		if !fields.ReadAnyASN1(&field, &tag) {
			return time.Time{}, false
		}
		if tag == asn1.Tag(4).ContextSpecific().Constructed() {
			var at time.Time
			ok := field.ReadASN1GeneralizedTime(&at)
			return at, ok
		}
	}
	return time.Time{}, false
}
