// The server's refusals, as errors.

export class FirstwordError extends Error {
  /**
   * @param {string} message
   * @param {string} code such as "speaker_not_found"; docs/api.md lists them
   * @param {string | null} param the field that is wrong, if one is
   * @param {number} status of HTTP; 0: none came
   * @param {number | null} retryAfterS when it is worth another try
   */
  constructor(message, code, param = null, status = 0, retryAfterS = null) {
    super(message);
    this.name = new.target.name;
    this.code = code;
    this.param = param;
    this.status = status;
    this.retryAfterS = retryAfterS;
  }

  /**
   * The error in an answer over HTTP.
   * @param {Response} response
   */
  static async of(response) {
    /** @type {{message?: string, code?: string, param?: string | null} | undefined} */
    let error;
    try {
      error = (await response.json()).error;
    } catch {
      // a proxy's page, no answer of this server
    }
    const retryAfter = Number(response.headers.get("Retry-After")) || null;
    const message = error?.message ?? `the server answers with status ${response.status}`;
    return new FirstwordError(message, error?.code ?? "http_error", error?.param ?? null, response.status, retryAfter);
  }
}

/** The connection broke after a speech had begun to sound. */
export class ConnectionLost extends FirstwordError {
  /** @param {string} message */
  constructor(message) {
    super(message, "connection_lost");
  }
}
