package rpctls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// A Reason classifies a failure to secure a connection.
type Reason uint8

// The reasons.
const (
	Broken    Reason = iota // the peer does not follow the protocol, or the connection was lost
	NoTLS                   // the peer has no TLS, or an attacker on the network pretends that
	Injected                // unencrypted bytes arrived where TLS must begin
	Stalled                 // the handshake took too long, or was aborted in favor of others
	OldTLS                  // the peer does not have TLS 1.3
	Protocol                // the peer wants TLS for another protocol (ALPN)
	NoCert                  // a certificate was not presented, or not requested
	Untrusted               // no trusted authority has signed the certificate
	Dates                   // the certificate is not valid yet, or no longer
	Name                    // the certificate is for another host
	Purpose                 // the certificate is for another purpose
	Revoked                 // the certificate was revoked
	Refused                 // the peer rejects this end's certificate
	reasons
)

var reasonNames = [...]string{
	"broken", "no_tls", "injected", "stalled", "old_tls", "protocol", "no_certificate",
	"untrusted", "dates", "name", "purpose", "revoked", "refused",
}

// String returns the reason as a word, for counters.
func (r Reason) String() string { return reasonNames[r] }

// An Error reports that a connection could not be secured, with a text for the
// administrator. It maps to EACCES: as with a denied call, another user or a retry
// changes nothing.
type Error struct {
	Reason Reason
	Text   string
	Err    error // the cause, or nil
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause and, unless a retry may succeed, EACCES.
func (e *Error) Unwrap() []error {
	list := make([]error, 0, 2)
	if e.Err != nil {
		list = append(list, e.Err)
	}
	if e.Reason != Broken && e.Reason != Stalled {
		list = append(list, syscall.EACCES)
	}
	return list
}

// rejectf returns an Error about a certificate, whose text follows its name.
func rejectf(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Text: fmt.Sprintf(format, args...)}
}

func formatDate(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// Alerts (RFC 8446, Section 6).
const (
	alertHandshakeFailure    tls.AlertError = 40
	alertBadCertificate      tls.AlertError = 42
	alertUnsupportedCert     tls.AlertError = 43
	alertRevoked             tls.AlertError = 44
	alertExpired             tls.AlertError = 45
	alertCertUnknown         tls.AlertError = 46
	alertUnknownCA           tls.AlertError = 48
	alertAccessDenied        tls.AlertError = 49
	alertProtocolVersion     tls.AlertError = 70
	alertCertificateRequired tls.AlertError = 116
	alertNoProtocol          tls.AlertError = 120
)

// remoteAlert returns the peer's alert that err reports. crypto/tls does not export the
// type of such errors.
func remoteAlert(err error) (a tls.AlertError, ok bool) {
	e, ok := errors.AsType[*net.OpError](err)
	if !ok || e.Op != "remote error" {
		return 0, false
	}
	for a := range tls.AlertError(alertNoProtocol + 1) {
		if a.Error() == e.Err.Error() {
			return a, true
		}
	}
	return 0, false
}

// alertError explains an alert from the peer.
func alertError(a tls.AlertError, err error, server bool) error {
	peer, files := "the server", "tls-cert= and tls-key="
	if server {
		peer, files = "the client", "--tls-cert"
	}
	switch a {
	case alertBadCertificate, alertUnsupportedCert, alertRevoked, alertExpired, alertCertUnknown, alertUnknownCA, alertAccessDenied:
		return &Error{Refused, fmt.Sprintf("%s rejects this host's certificate (%s): its log may say why; name another certificate with %s, or the authority that has signed this one on %s",
			peer, err, files, peer), err}
	case alertCertificateRequired:
		return &Error{NoCert, peer + " requires a certificate from this host: name one with " + files, err}
	case alertProtocolVersion, alertHandshakeFailure:
		return &Error{OldTLS, peer + " does not have TLS 1.3, which RPC needs (" + err.Error() + ")", err}
	case alertNoProtocol:
		return &Error{Protocol, peer + " has TLS, but not for RPC (ALPN): is this the NFS port?", err}
	}
	return err
}

// explainHandshake returns the Error for a failed handshake.
func explainHandshake(err error, server bool) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if alert, ok := remoteAlert(err); ok {
		if e, ok := errors.AsType[*Error](alertError(alert, err, server)); ok {
			return e
		}
	}
	peer := "the server"
	if server {
		peer = "the client"
	}
	switch text := err.Error(); {
	case containsAny(text, "unsupported versions", "selected unsupported protocol version", "unsupported protocol version"):
		return &Error{OldTLS, peer + " does not have TLS 1.3, which RPC needs", err}
	case containsAny(text, "application protocol", "ALPN"):
		return &Error{Protocol, peer + " wants TLS for another protocol than RPC (ALPN): is this the NFS port?", err}
	}
	return &Error{Broken, "the TLS handshake with " + peer + " failed: " + err.Error(), err}
}
