package krb5

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

// The sample encryptions of RFC 8009, Appendix A, with usage 2.
var sealVectors = []struct {
	enctype                         Enctype
	key, plain, confounder, encoded string
}{
	{AES128SHA256, rfc8009Key19, "", "7e5895eaf2672435bad817f545a37148", "ef85fb890bb8472f4dab20394dca781dad877eda39d50c870c0d5a0a8e48c718"},
	{
		AES128SHA256, rfc8009Key19, "000102030405", "7bca285e2fd4130fb55b1a5c83bc5b24",
		"84d7f30754ed987bab0bf3506beb09cfb55402cef7e6877ce99e247e52d16ed4421dfdf8976c",
	},
	{
		AES128SHA256, rfc8009Key19, "000102030405060708090a0b0c0d0e0f", "56ab21713ff62c0a1457200f6fa9948f",
		"3517d640f50ddc8ad3628722b3569d2ae07493fa8263254080ea65c1008e8fc295fb4852e7d83e1e7c48c37eebe6b0d3",
	},
	{
		AES128SHA256, rfc8009Key19, "000102030405060708090a0b0c0d0e0f1011121314", "a7a4e29a4728ce10664fb64e49ad3fac",
		"720f73b18d9859cd6ccb4346115cd336c70f58edc0c4437c5573544c31c813bce1e6d072c186b39a413c2f92ca9b8334a287ffcbfc",
	},
	{
		AES256SHA384, rfc8009Key20, "", "f764e9fa15c276478b2c7d0c4e5f58e4",
		"41f53fa5bfe7026d91faf9be959195a058707273a96a40f0a01960621ac612748b9bbfbe7eb4ce3c",
	},
	{
		AES256SHA384, rfc8009Key20, "000102030405", "b80d3251c1f6471494256ffe712d0b9a",
		"4ed7b37c2bcac8f74f23c1cf07e62bc7b75fb3f637b9f559c7f664f69eab7b6092237526ea0d1f61cb20d69d10f2",
	},
	{
		AES256SHA384, rfc8009Key20, "000102030405060708090a0b0c0d0e0f", "53bf8a0d105265d4e276428624ce5e63",
		"bc47ffec7998eb91e8115cf8d19dac4bbbe2e163e87dd37f49beca92027764f68cf51f14d798c2273f35df574d1f932e40c4ff255b36a266",
	},
	{
		AES256SHA384, rfc8009Key20, "000102030405060708090a0b0c0d0e0f1011121314", "763e65367e864f02f55153c7e3b58af1",
		"40013e2df58e8751957d2878bcd2d6fe101ccfd556cb1eae79db3c3ee86429f2b2a602ac86fef6ecb647d6295fae077a1feb517508d2c16b4192e01f62",
	},
}

// TestSeal compares with RFC 8009, Appendix A (R4121-E-2).
func TestSeal(t *testing.T) {
	for i, tt := range sealVectors {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			key := Key{tt.enctype, wiretest.Bytes(t, tt.key)}
			var s sealKey
			s.initSealing(key, 2)
			text := append(wiretest.Bytes(t, tt.confounder), wiretest.Bytes(t, tt.plain)...)
			mac := make([]byte, profiles[tt.enctype].macSize)
			s.seal([][]byte{text[:5], text[5:]}, mac)
			encoded := append(text, mac...)
			require.Equal(t, wiretest.Bytes(t, tt.encoded), encoded)

			plain, err := key.decrypt(2, encoded)
			require.NoError(t, err)
			assert.Equal(t, wiretest.Bytes(t, tt.plain), append([]byte(nil), plain...))
		})
	}
}

// TestChecksum compares with the sample checksums of RFC 8009, Appendix A
// (R4121-E-2).
func TestChecksum(t *testing.T) {
	message := wiretest.Bytes(t, "000102030405060708090a0b0c0d0e0f1011121314")
	for _, tt := range []struct {
		enctype   Enctype
		key, want string
	}{
		{AES128SHA256, rfc8009Key19, "d78367186643d67b411cba9139fc1dee"},
		{AES256SHA384, rfc8009Key20, "45ee791567eefca37f4ac1e0222de80d43c3bfa06699672a"},
	} {
		p := profiles[tt.enctype]
		k := newMACKey(p, Key{tt.enctype, wiretest.Bytes(t, tt.key)}.deriveKey(2, forChecksum, p.macKeySize))
		h := k.getHash()
		h.writeAll([][]byte{message[:7], message[7:]})
		assert.Equal(t, wiretest.Bytes(t, tt.want), k.appendSum(nil, h))
	}
}

// TestEncryptedData checks that all that a peer can cut or change is noticed, and
// that a changed usage or key is.
func TestEncryptedData(t *testing.T) {
	for e, p := range profiles {
		key, err := newKey(e, make([]byte, p.keySize))
		require.NoError(t, err)
		for size := range 40 {
			plain := make([]byte, size)
			sealed := key.encrypt(usageTicket, plain)
			require.NotEqual(t, sealed, key.encrypt(usageTicket, plain), "a confounder of its own")
			got, err := key.decrypt(usageTicket, sealed)
			require.NoError(t, err)
			require.Equal(t, plain, got)
			for n := range sealed {
				_, err := key.decrypt(usageTicket, sealed[:n])
				require.ErrorIs(t, err, errIntegrity)
				sealed[n] ^= 0x10
				_, err = key.decrypt(usageTicket, sealed)
				require.ErrorIs(t, err, errIntegrity)
				sealed[n] ^= 0x10
			}
			_, err = key.decrypt(usageAuthenticator, sealed)
			require.ErrorIs(t, err, errIntegrity)
		}
	}
}

// TestNewKey checks that older encryption types and wrong lengths are refused
// (R4121-1-1, R4121-E-3), and that no value is printed.
func TestNewKey(t *testing.T) {
	for _, e := range []Enctype{0, 1, 3, 16, 23, 25, 26, -1} {
		_, err := newKey(e, make([]byte, 16))
		assert.EqualError(t, err, fmt.Sprintf("encryption type %d is not supported: only aes128-cts and aes256-cts are (17 to 20)", e))
	}
	_, err := newKey(AES256SHA1, make([]byte, 16))
	assert.EqualError(t, err, "a key for aes256-cts-hmac-sha1-96 has 32 bytes, not 16")
	value := []byte("the secret value")
	key, err := newKey(AES128SHA1, value)
	require.NoError(t, err)
	value[0] = 0
	assert.Equal(t, "the secret value", string(key.Value), "a copy")
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{key, &key, Establishment{Key: key}, []Key{key}} {
			text := fmt.Sprintf(format, v)
			assert.NotContains(t, text, "secret", format)
			assert.NotContains(t, text, "116, 104", format)
			assert.NotContains(t, text, "116 104", format)
			assert.NotContains(t, text, "7468", format)
			assert.NotContains(t, text, "0x74", format)
		}
	}
}
