//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

// The structures of gssapi.h, gssapi_ext.h, gssapi_krb5.h and krb5.h. On these
// architectures Go's layout is that of C.
type (
	buffer struct { // gss_buffer_desc
		length uintptr
		value  unsafe.Pointer
	}
	channelBindings struct { // gss_channel_bindings_struct
		_, _ struct { // the addresses of the ends, of type 0: none
			_ uint32
			_ buffer
		}
		data buffer
	}
	oid struct { // gss_OID_desc
		length   uint32
		elements unsafe.Pointer
	}
	oidSet struct { // gss_OID_set_desc
		count    uintptr
		elements *oid
	}
	storeElement struct { // gss_key_value_element_desc
		key, value *byte
	}
	credStore struct { // gss_key_value_set_desc
		count    uint32
		elements *storeElement
	}
	lucidKey struct { // gss_krb5_lucid_key_t
		enctype uint32
		length  uint32
		data    *byte
	}
	lucidContext struct { // gss_krb5_lucid_context_v1_t
		_            [2]uint32 // version, initiate
		endTime      uint32
		sendSequence uint64
		_            uint64   // the peer's sequence number
		protocol     uint32   // 0: RFC 1964, 1: RFC 4121
		_            struct { // the key of RFC 1964
			_ [2]uint32
			_ lucidKey
		}
		haveSubkey uint32
		key        lucidKey
		subkey     lucidKey
	}
	ticket struct { // krb5_creds
		_       uint32
		_       [2]unsafe.Pointer // the client's and the server's name
		_       [3]uint32         // the key's numbers
		_       unsafe.Pointer    // the key
		_       [2]uint32         // authentication time and start time
		endTime uint32
		_       [200]byte // larger than the remaining fields
	}
	handle = unsafe.Pointer // an object in the library's memory
)

// A library has the functions of libgssapi_krb5 and libkrb5 that this program calls.
type library struct {
	importName     func(minor *uint32, name *buffer, kind *oid, out *handle) uint32
	displayName    func(minor *uint32, name handle, out *buffer, kind **oid) uint32
	releaseBuffer  func(minor *uint32, b *buffer) uint32
	acquireFrom    func(minor *uint32, name handle, seconds uint32, mechs *oidSet, usage int32, from *credStore, out *handle, actual **oidSet, lasts *uint32) uint32
	setEnctypes    func(minor *uint32, cred handle, count uint32, enctypes *uint32) uint32
	initContext    func(minor *uint32, cred handle, c *handle, target handle, mech *oid, flags, seconds uint32, bindings *channelBindings, in *buffer, actual **oid, out *buffer, granted, lasts *uint32) uint32
	inquireContext func(minor *uint32, c handle, source, target *handle, lasts *uint32, mech **oid, flags *uint32, local, open *int32) uint32
	exportLucid    func(minor *uint32, c *handle, version uint32, out **lucidContext) uint32
	freeLucid      func(minor *uint32, keys *lucidContext) uint32
	displayStatus  func(minor *uint32, status uint32, kind int32, mech *oid, more *uint32, out *buffer) uint32

	newKerberos  func(out *handle) int32
	defaultCache func(k handle, out *handle) int32
	resolveCache func(k handle, name string, out *handle) int32
	fullName     func(k, cache handle, out **byte) int32
	closeCache   func(k, cache handle) int32
	startTickets func(k, cache handle, cursor *handle) int32
	nextTicket   func(k, cache handle, cursor *handle, out *ticket) int32
	endTickets   func(k, cache handle, cursor *handle) int32
	freeTicket   func(k handle, t *ticket)
	freeText     func(k handle, text *byte)
}

// MIT's libraries.
const (
	gssapi          = "libgssapi_krb5.so.2"
	kerberosLibrary = "libkrb5.so.3"
)

// loadLibraries loads the two libraries. Both must have all needed functions.
func loadLibraries(gssapi, kerberosLibrary string) (l *library, err error) {
	l = new(library)
	defer func() {
		if text := recover(); text != nil { // purego panics if a function is missing
			l, err = nil, missingLibrary(fmt.Sprint(text))
		}
	}()
	open := func(name string, functions map[string]any) error {
		from, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			return missingLibrary(err.Error())
		}
		for name, f := range functions {
			purego.RegisterLibFunc(f, from, name)
		}
		return nil
	}
	if err := open(gssapi, map[string]any{
		"gss_import_name": &l.importName, "gss_display_name": &l.displayName, "gss_release_buffer": &l.releaseBuffer,
		"gss_acquire_cred_from": &l.acquireFrom, "gss_krb5_set_allowable_enctypes": &l.setEnctypes,
		"gss_init_sec_context": &l.initContext, "gss_inquire_context": &l.inquireContext,
		"gss_krb5_export_lucid_sec_context": &l.exportLucid, "gss_krb5_free_lucid_sec_context": &l.freeLucid,
		"gss_display_status": &l.displayStatus,
	}); err != nil {
		return nil, err
	}
	if err := open(kerberosLibrary, map[string]any{
		"krb5_init_context": &l.newKerberos, "krb5_cc_default": &l.defaultCache, "krb5_cc_resolve": &l.resolveCache,
		"krb5_cc_get_full_name": &l.fullName, "krb5_cc_close": &l.closeCache, "krb5_cc_start_seq_get": &l.startTickets,
		"krb5_cc_next_cred": &l.nextTicket, "krb5_cc_end_seq_get": &l.endTickets,
		"krb5_free_cred_contents": &l.freeTicket, "krb5_free_string": &l.freeText,
	}); err != nil {
		return nil, err
	}
	return l, nil
}

// missingLibrary returns the Failure for a library that is missing or lacks a function.
func missingLibrary(text string) error {
	return &wire.Failure{Reason: wire.NoLibrary, Text: fmt.Sprintf("nfsrdma-gss needs MIT's Kerberos: install libgssapi-krb5-2 (Debian) or krb5-libs (Fedora) (%s)", text)}
}

// Object identifiers of Kerberos (RFC 4121, Section 1), host-based service names (RFC
// 2743, Section 4.1), and principals (RFC 1964, Section 2.1.1).
var (
	kerberos    = newOID("\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")
	hostService = newOID("\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04")
	principal   = newOID("\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01")
)

func newOID(der string) *oid {
	b := []byte(der)
	return &oid{length: uint32(len(b)), elements: unsafe.Pointer(&b[0])}
}

// newBuffer returns a buffer that aliases b.
func newBuffer(b []byte) *buffer {
	return &buffer{length: uintptr(len(b)), value: unsafe.Pointer(unsafe.SliceData(b))}
}

// takeBuffer copies a buffer that the library allocated, and releases it.
func (l *library) takeBuffer(b *buffer) []byte {
	var minor uint32
	out := append([]byte(nil), unsafe.Slice((*byte)(b.value), b.length)...)
	l.releaseBuffer(&minor, b)
	return out
}

// nameHandle imports a name. Names are not released before the process ends.
func (l *library) nameHandle(text string, kind *oid) (handle, *wire.Failure) {
	var minor uint32
	var out handle
	b := []byte(text)
	if major := l.importName(&minor, newBuffer(b), kind, &out); major != 0 {
		return nil, l.statusFailure(major, minor)
	}
	runtime.KeepAlive(b)
	return out, nil
}

// statusText returns the library's message for a status.
func (l *library) statusText(status uint32, kind int32) string {
	var minor, more uint32
	var out buffer
	if l.displayStatus(&minor, status, kind, kerberos, &more, &out) != 0 {
		return fmt.Sprintf("status %#x", status)
	}
	return string(l.takeBuffer(&out))
}

// cText returns a string as a NUL-terminated C string.
func cText(s string) *byte { return unsafe.SliceData(append([]byte(s), 0)) }

// goText copies a C string.
func goText(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
