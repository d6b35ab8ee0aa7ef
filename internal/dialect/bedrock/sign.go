package bedrock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"llmgw/internal/dialect"
)

// service is what Bedrock is called in signatures.
const service = "bedrock"

// credentials are an AWS key and where it is used.
type credentials struct{ access, secret, session, region string }

// sign gives an outbound call AWS's signature, version 4. Only what nobody
// changes on the way is signed: the host, the path, the content's type, the
// body, and X-Amz- headers, all of which AWS wants to see signed.
func sign(out dialect.Outbound, c credentials, now time.Time) error {
	ctx := context.Background() // nothing is sent
	r, err := http.NewRequestWithContext(ctx, out.Method, out.URL, nil)
	if err != nil {
		return fmt.Errorf("sign a call to Bedrock: %w", err)
	}
	for name, values := range out.Header {
		if name == "Content-Type" || strings.HasPrefix(name, "X-Amz-") {
			r.Header[name] = values
		}
	}
	hash := sha256.New()
	for _, segment := range out.Body {
		_, _ = hash.Write(segment) // it never fails
	}
	digest := hex.EncodeToString(hash.Sum(nil))
	r.Header.Set("X-Amz-Content-Sha256", digest)
	key := aws.Credentials{AccessKeyID: c.access, SecretAccessKey: c.secret, SessionToken: c.session}
	if err := v4.NewSigner().SignHTTP(ctx, key, r, digest, service, c.region, now); err != nil {
		return fmt.Errorf("sign a call to Bedrock: %w", err)
	}
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256"} {
		if value := r.Header.Get(name); value != "" {
			out.Header.Set(name, value)
		}
	}
	return nil
}
