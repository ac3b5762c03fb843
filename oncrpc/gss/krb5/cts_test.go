package krb5

import (
	"crypto/aes"
	"crypto/cipher"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

// The vectors of RFC 3962, Appendix B, for CBC with ciphertext stealing under
// the key "chicken teriyaki".
var ctsVectors = []struct{ plain, cipher string }{
	{
		"49 20 77 6f 75 6c 64 20 6c 69 6b 65 20 74 68 65 20",
		"c6 35 35 68 f2 bf 8c b4 d8 a5 80 36 2d a7 ff 7f 97",
	},
	{
		"49 20 77 6f 75 6c 64 20 6c 69 6b 65 20 74 68 65 20 47 65 6e 65 72 61 6c 20 47 61 75 27 73 20",
		"fc 00 78 3e 0e fd b2 c1 d4 45 d4 c8 ef f7 ed 22 97 68 72 68 d6 ec cc c0 c0 7b 25 e2 5e cf e5",
	},
	{
		"49 20 77 6f 75 6c 64 20 6c 69 6b 65 20 74 68 65 20 47 65 6e 65 72 61 6c 20 47 61 75 27 73 20 43",
		"39 31 25 23 a7 86 62 d5 be 7f cb cc 98 eb f5 a8 97 68 72 68 d6 ec cc c0 c0 7b 25 e2 5e cf e5 84",
	},
	{
		"49 20 77 6f 75 6c 64 20 6c 69 6b 65 20 74 68 65 20 47 65 6e 65 72 61 6c 20 47 61 75 27 73 20 43 68 69 63 6b 65 6e 2c 20 70 6c 65 61 73 65 2c",
		"97 68 72 68 d6 ec cc c0 c0 7b 25 e2 5e cf e5 84 b3 ff fd 94 0c 16 a1 8c 1b 55 49 d2 f8 38 02 9e 39 31 25 23 a7 86 62 d5 be 7f cb cc 98 eb f5",
	},
	{
		"49 20 77 6f 75 6c 64 20 6c 69 6b 65 20 74 68 65 20 47 65 6e 65 72 61 6c 20 47 61 75 27 73 20 43 68 69 63 6b 65 6e 2c 20 70 6c 65 61 73 65 2c 20",
		"97 68 72 68 d6 ec cc c0 c0 7b 25 e2 5e cf e5 84 9d ad 8b bb 96 c4 cd c0 3b c1 03 e1 a1 94 bb d8 39 31 25 23 a7 86 62 d5 be 7f cb cc 98 eb f5 a8",
	},
	{
		"49 20 77 6f 75 6c 64 20 6c 69 6b 65 20 74 68 65 20 47 65 6e 65 72 61 6c 20 47 61 75 27 73 20 43 68 69 63 6b 65 6e 2c 20 70 6c 65 61 73 65 2c 20 61 6e 64 20 77 6f 6e 74 6f 6e 20 73 6f 75 70 2e",
		"97 68 72 68 d6 ec cc c0 c0 7b 25 e2 5e cf e5 84 39 31 25 23 a7 86 62 d5 be 7f cb cc 98 eb f5 a8 48 07 ef e8 36 ee 89 a5 26 73 0d bc 2f 7b c8 40 9d ad 8b bb 96 c4 cd c0 3b c1 03 e1 a1 94 bb d8",
	},
}

// scatterBytes cuts b into n slices at random, of which some are empty.
func scatterBytes(r *rand.Rand, b []byte, n int) [][]byte {
	var list [][]byte
	for ; n > 1; n-- {
		cut := r.IntN(len(b) + 1)
		list = append(list, b[:cut:cut])
		b = b[cut:]
	}
	return append(list, b)
}

func ctsKeys(key []byte) (encrypting, decrypting *ctsKey) {
	encrypting, decrypting = new(ctsKey), new(ctsKey)
	encrypting.init(key, cipher.NewCBCEncrypter)
	decrypting.init(key, cipher.NewCBCDecrypter)
	return encrypting, decrypting
}

// TestCTS compares with RFC 3962, Appendix B, in one slice, cut at each byte, and
// in slices of one byte (R4121-E-1).
func TestCTS(t *testing.T) {
	encrypting, decrypting := ctsKeys([]byte("chicken teriyaki"))
	for _, tt := range ctsVectors {
		plain, want := wiretest.Bytes(t, tt.plain), wiretest.Bytes(t, tt.cipher)
		check := func(cut func(b []byte) [][]byte) {
			t.Helper()
			text := append([]byte(nil), plain...)
			encrypting.encrypt(cut(text))
			require.Equal(t, want, text)
			decrypting.decrypt(cut(text))
			require.Equal(t, plain, text)
		}
		for n := range len(plain) + 1 {
			check(func(b []byte) [][]byte { return [][]byte{b[:n], nil, b[n:]} })
		}
		check(func(b []byte) (list [][]byte) {
			for i := range b {
				list = append(list, b[i:i+1])
			}
			return list
		})
	}
}

// TestCTSOneBlock checks that a text of one block is encrypted by itself (RFC
// 3962, Section 5).
func TestCTSOneBlock(t *testing.T) {
	key := []byte("chicken teriyaki")
	encrypting, decrypting := ctsKeys(key)
	text := []byte("exactly a block.")
	want := make([]byte, 16)
	block, err := aes.NewCipher(key)
	require.NoError(t, err)
	block.Encrypt(want, text)
	encrypting.encrypt([][]byte{text[:3], text[3:]})
	assert.Equal(t, want, text)
	decrypting.decrypt([][]byte{text[:3], text[3:]})
	assert.Equal(t, "exactly a block.", string(text))
}

// TestCTSScattered compares long texts in random slices with the same text in
// one, and with plain CBC of its whole blocks.
func TestCTSScattered(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	key := []byte("another key of thirty-two bytes!")
	encrypting, decrypting := ctsKeys(key)
	block, err := aes.NewCipher(key)
	require.NoError(t, err)
	for size := 17; size < 400; size++ {
		plain := make([]byte, size)
		fillRandom(r, plain)
		padded := append(append([]byte(nil), plain...), make([]byte, (16-size%16)%16)...)
		cipher.NewCBCEncrypter(block, zeroIV[:]).CryptBlocks(padded, padded)
		n := len(padded)
		want := append(append(append([]byte(nil), padded[:n-32]...), padded[n-16:]...), padded[n-32:n-16]...)[:size]

		text := append([]byte(nil), plain...)
		encrypting.encrypt(scatterBytes(r, text, 1+r.IntN(7)))
		require.Equal(t, want, text, size)
		decrypting.decrypt(scatterBytes(r, text, 1+r.IntN(7)))
		require.Equal(t, plain, text, size)
	}
}

func fillRandom(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}
